package concourse

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A row is all that an option needs: it is written, changed, and taken back, and
// another's variable stays.
func TestARowOfTheTableIsWrittenChangedAndTakenBack(t *testing.T) {
	table := append(envTable[WorkerConfig]{}, workerVariables...)
	table = append(table, variable[WorkerConfig]{"CONCOURSE_NEW_OPTION", func(c WorkerConfig) string { return c.LogLevel }})
	existing := []byte("THEIRS=1\n")
	for _, c := range []struct {
		set  string
		want []string
		not  string
	}{
		{"one", []string{"CONCOURSE_NEW_OPTION=one\n", "THEIRS=1\n"}, "two"},
		{"two", []string{"CONCOURSE_NEW_OPTION=two\n", "THEIRS=1\n"}, "one"},
		{"", []string{"THEIRS=1\n"}, "CONCOURSE_NEW_OPTION"},
	} {
		out, err := renderEnv(existing, table.of(WorkerConfig{LogLevel: c.set}), table.owns)
		require.NoError(t, err)
		for _, line := range c.want {
			require.Contains(t, string(out), line)
		}
		require.NotContains(t, string(out), c.not)
		existing = out
	}
}

// Two rows of one variable would each take back what the other writes.
func TestEachVariableHasOneRow(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range workerVariables {
		require.False(t, seen[v.key], v.key)
		seen[v.key] = true
	}
	seen = map[string]bool{}
	for _, v := range webVariables {
		require.False(t, seen[v.key], v.key)
		seen[v.key] = true
	}
}
