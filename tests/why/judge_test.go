package why

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// TestVerdictsOfJudgedCases holds the goals against all cases but those that are held back.
func TestVerdictsOfJudgedCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	var cases []judged
	for _, file := range files {
		if filepath.Base(file) != heldBack {
			cases = append(cases, readCases(t, file)...)
		}
	}
	for _, r := range requireGoals(t, cases) {
		if strings.HasPrefix(r.kind, "spins") && slices.Contains(r.right, verdict.GPU) {
			for _, reason := range r.got.Reasons {
				require.NotContains(t, reason.Fix, "Raise the timeout", r.name)
			}
		}
	}
}

// requireGoals fails if infrastructure or a GPU is blamed for a task's own failure, a task for a
// GPU's, or less than 90 % have their right kind.
func requireGoals(t *testing.T, cases []judged) []result {
	all := judge(t, cases)
	text, sum := table(all)
	t.Log(text)
	require.Zero(t, sum.blamesWrongly, "infrastructure or a GPU is blamed for the task's own failure")
	require.Zero(t, sum.blamesTask, "the task is blamed with a sign of the GPU in its record")
	require.GreaterOrEqual(t, sum.named*10, sum.known*9, "right kinds")
	return all
}

// result is a judged case: the verdict and its place in the table.
type result struct {
	judged
	got verdict.Verdict
}

// right reports whether the verdict is admissible.
func (r result) isRight() bool { return slices.Contains(r.right, r.got.Kind) }

// blamesWrongly reports an infrastructure or a GPU that is blamed for the task's own failure.
func (r result) blamesWrongly() bool {
	return !r.isRight() && r.right[0] == verdict.Task && r.got.Kind != verdict.Unknown
}

// blamesTask reports a task that is blamed despite a sign of the GPU.
func (r result) blamesTask() bool {
	return !r.isRight() && r.right[0] == verdict.GPU && r.got.Kind == verdict.Task
}

// open reports whether no verdict is a right one, too.
func (r result) open() bool { return slices.Contains(r.right, verdict.Unknown) }

// judge plays cases and returns their results in order.
func judge(t *testing.T, cases []judged) []result {
	all := make([]result, len(cases))
	t.Run("cases", func(t *testing.T) {
		var mu sync.Mutex
		for i, c := range cases {
			t.Run(c.kind+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				record := c.play(t)
				mu.Lock()
				defer mu.Unlock()
				all[i] = result{c, verdict.Decide(&record)}
			})
		}
	})
	require.False(t, t.Failed())
	return all
}

// score sums up the results of a kind.
type score struct{ right, unknown, wrong, blamesWrongly, blamesTask, known, named int }

func (s *score) add(r result) {
	switch {
	case r.isRight():
		s.right++
	case r.got.Kind == verdict.Unknown:
		s.unknown++
	default:
		s.wrong++
	}
	if r.blamesWrongly() {
		s.blamesWrongly++
	}
	if r.blamesTask() {
		s.blamesTask++
	}
	if !r.open() {
		s.known++
		if r.isRight() {
			s.named++
		}
	}
}

// table returns the table of confusion, and the sum.
func table(all []result) (string, score) {
	var b strings.Builder
	var kinds []string
	byKind := map[string]*score{}
	var sum score
	for _, r := range all {
		if byKind[r.kind] == nil {
			kinds = append(kinds, r.kind)
			byKind[r.kind] = &score{}
		}
		byKind[r.kind].add(r)
		sum.add(r)
	}
	const row = "%-14s %6v %8v %6v %20v %13v\n"
	fmt.Fprintf(&b, "\n"+row, "kind", "right", "unknown", "wrong", "not the task's fault", "not the GPU's")
	for _, kind := range append(kinds, "") {
		name, s := kind, &sum
		if kind != "" {
			s = byKind[kind]
		} else {
			name = "all"
		}
		fmt.Fprintf(&b, row, name, s.right, s.unknown, s.wrong, s.blamesWrongly, s.blamesTask)
	}
	fmt.Fprintf(&b, "named: %d of %d\n", sum.named, sum.known)
	for _, r := range all {
		if !r.isRight() {
			fmt.Fprintf(&b, "%s/%s: want %v, got %s", r.kind, r.name, r.right, r.got.Kind)
			for _, reason := range r.got.Reasons {
				fmt.Fprintf(&b, "; %s: %s", reason.Code, reason.Text)
			}
			b.WriteString("\n")
		}
	}
	return b.String(), sum
}
