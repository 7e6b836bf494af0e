package fleet

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// enums has the types with a fixed list of values.
var enums = map[reflect.Type]any{
	reflect.TypeFor[health.State]():     api.States,
	reflect.TypeFor[Use]():              []Use{Free, Leased, InUse, Quarantined, OnProbation, Unknown},
	reflect.TypeFor[Answer]():           []Answer{Yes, No, Maybe},
	reflect.TypeFor[quarantine.State](): []quarantine.State{quarantine.InService, quarantine.Quarantined, quarantine.OnProbation},
	reflect.TypeFor[quarantine.Actor](): []quarantine.Actor{quarantine.ByHealth, quarantine.ByHand},
}

func TestSchemaDescribesTheAPI(t *testing.T) {
	text := exportertest.Schema(t, reflect.TypeFor[Report](), "Answer of /api/v1/fleet", enums)
	hosttest.Golden(t, "schema.json", text)
	require.Equal(t, string(schema), newBed(t).get(t, "/api/v1/fleet/schema").Body.String())
}

// A report never has null in place of a list, which the schema forbids.
func TestAPIHasNoNullLists(t *testing.T) {
	for _, r := range []Report{newBed(t).report(t), observed{at: hosttest.Now}.report()} {
		require.NotNil(t, r.Workers)
		require.NotNil(t, r.Waiting)
		require.NotNil(t, r.Coverage)
		require.NotNil(t, r.Starts)
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
