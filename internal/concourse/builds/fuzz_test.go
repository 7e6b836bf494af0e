package builds

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// A team's pipeline makes the plan of its builds.
func FuzzPlan(f *testing.F) {
	f.Add(`{"plan":{"id":"a","do":[{"id":"c","task":{"name":"unit"}}]}}`)
	f.Add(`{"id":"a","across":{"vars":[]},"steps":[{"values":["gfx90a",1,null,{"a":[]}],"step":{"id":"b","task":{"name":"\u0000"}}}]}`)
	f.Add(strings.Repeat(`{"values":["x"],"step":{"id":"a","task":{"name":"n"},"do":[`, 100) + strings.Repeat("]}}", 100))
	f.Fuzz(func(t *testing.T, text string) {
		var plan any
		if json.Unmarshal([]byte(text), &plan) != nil {
			return
		}
		hasAcross(plan)
		s := steps{}
		s.add(plan, "")
		require.LessOrEqual(t, len(s), maxTasks)
		for _, name := range s {
			require.LessOrEqual(t, utf8.RuneCountInString(name), maxStep+len("..."))
		}
	})
}

// Each level of across adds values to the names of its steps. They stay bounded.
func TestValuesOfManyLevelsAreBounded(t *testing.T) {
	const levels = 3000
	plan := any(map[string]any{"id": "last", "task": map[string]any{"name": "unit"}})
	for range levels {
		plan = map[string]any{"values": []any{strings.Repeat("x", 1000)}, "step": plan}
	}
	require.Less(t, testing.AllocsPerRun(1, func() { steps{}.add(plan, "") }), 20.*levels)
	s := steps{}
	s.add(plan, strings.Repeat("x", 10*maxStep))
	require.Len(t, s, 1)
}

func FuzzInputs(f *testing.F) {
	f.Add(`{"inputs":[{"name":"src","version":{"ref":"a"}},{"name":"t","version":{"time":"2026-01-01T00:00:00Z"}}]}`)
	f.Add(`{"inputs":[{"version":null},{"name":"t","version":{"time":"2026-01-01 00:00:00 +0000 UTC"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var r resources
		if json.Unmarshal([]byte(text), &r) != nil {
			return
		}
		d := r.digest(&build{answer: answer{ID: 7}})
		require.Len(t, d, 24)
		for i, j := 0, len(r.Inputs)-1; i < j; i, j = i+1, j-1 {
			r.Inputs[i], r.Inputs[j] = r.Inputs[j], r.Inputs[i]
		}
		require.Equal(t, d, r.digest(&build{answer: answer{ID: 7}}), "the order of inputs is no part")
	})
}
