package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/gpu/health"
	"concourse-ci-machine/internal/pool/quarantine"
	"concourse-ci-machine/internal/testutil/hosttest"
)

// enums has the types with a fixed list of values.
var enums = map[reflect.Type]any{
	reflect.TypeFor[health.State]():     api.States,
	reflect.TypeFor[Use]():              []Use{Free, Leased, InUse, Quarantined, Proving, Unknown},
	reflect.TypeFor[quarantine.State](): []quarantine.State{quarantine.InService, quarantine.Quarantined, quarantine.Proving},
	reflect.TypeFor[quarantine.Actor](): []quarantine.Actor{quarantine.ByHealth, quarantine.ByHand},
}

// schemaOf returns the JSON Schema of a type's JSON.
func schemaOf(t *testing.T, of reflect.Type) map[string]any {
	if values, is := enums[of]; is {
		return map[string]any{"enum": values}
	}
	if of == reflect.TypeFor[time.Time]() {
		return map[string]any{"type": "string", "format": "date-time"}
	}
	switch of.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Pointer:
		return map[string]any{"anyOf": []any{schemaOf(t, of.Elem()), map[string]any{"type": "null"}}}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t, of.Elem())}
	}
	require.Equal(t, reflect.Struct, of.Kind(), of)
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(of) {
		if !f.IsExported() || f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if properties[name] = schemaOf(t, f.Type); !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

func TestSchemaDescribesTheAPI(t *testing.T) {
	all := schemaOf(t, reflect.TypeFor[Report]())
	all["$schema"], all["title"] = "https://json-schema.org/draft/2020-12/schema", "Answer of /api/v1/fleet"
	text, err := json.MarshalIndent(all, "", " ")
	require.NoError(t, err)
	hosttest.Golden(t, "schema.json", string(text)+"\n")
	require.Equal(t, string(schema), newBed(t).get(t, "/api/v1/fleet/schema").Body.String())
}

// A report never has null in place of a list, which the schema forbids.
func TestAPIHasNoNullLists(t *testing.T) {
	for _, r := range []Report{newBed(t).report(t), observed{at: hosttest.Now}.report()} {
		require.NotNil(t, r.Workers)
		require.NotNil(t, r.Waiting)
		require.NotNil(t, r.Coverage)
	}
	require.NotNil(t, reportOf([]gpu{{}}).Workers[0].GPUs[0].Holders)
}

func TestVendoredFilesAreUnchanged(t *testing.T) {
	table, err := os.ReadFile("page/README.md")
	require.NoError(t, err)
	checked := 0
	for _, name := range []string{"uPlot.iife.min.js", "uPlot.min.css", "uPlot.LICENSE"} {
		data, err := pageFiles.ReadFile("page/" + name)
		require.NoError(t, err)
		for line := range bytes.Lines(table) {
			if bytes.HasPrefix(line, []byte("| `"+name+"`")) {
				require.Contains(t, string(line), fmt.Sprintf("`%x`", sha256.Sum256(data)))
				checked++
			}
		}
	}
	require.Equal(t, 3, checked)
}
