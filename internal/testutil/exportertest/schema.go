package exportertest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Schema returns the text of the JSON Schema of a type's JSON. enums has the types with a
// fixed list of values.
func Schema(t *testing.T, of reflect.Type, title string, enums map[reflect.Type]any) string {
	t.Helper()
	all := schemaOf(t, of, enums)
	all["$schema"], all["title"] = "https://json-schema.org/draft/2020-12/schema", title
	text, err := json.MarshalIndent(all, "", " ")
	require.NoError(t, err)
	return string(text) + "\n"
}

// schemaOf returns the JSON Schema of a type's JSON.
func schemaOf(t *testing.T, of reflect.Type, enums map[reflect.Type]any) map[string]any {
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
		return map[string]any{"anyOf": []any{schemaOf(t, of.Elem(), enums), map[string]any{"type": "null"}}}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t, of.Elem(), enums)}
	}
	require.Equal(t, reflect.Struct, of.Kind(), of)
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(of) {
		if !f.IsExported() || f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if properties[name] = schemaOf(t, f.Type, enums); !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}
