package cli

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/base/wellknown"
)

// Statuses name actions as commands, see wellknown.RunAction.
func TestEachActionIsACommandWithoutJuju(t *testing.T) {
	t.Chdir("../../../..") // actions.yaml
	wellknown.Command = wellknown.MachineProgram
	t.Cleanup(func() { wellknown.Command = wellknown.Dispatch })
	data, err := os.ReadFile("actions.yaml")
	require.NoError(t, err)
	var actions map[string]any
	require.NoError(t, yaml.Unmarshal(data, &actions))
	require.Greater(t, len(actions), 20)
	root := Root()
	for name := range actions {
		c, _, err := root.Find([]string{name})
		require.NoError(t, err)
		require.Equal(t, "concourse-ci-machine "+name, c.CommandPath())
	}
	var out, errs bytes.Buffer
	none := func(string) string { return "" }
	require.Zero(t, Main([]string{wellknown.MachineProgram, "logs", "--help"}, none, &out, &errs), errs.String())
	require.Contains(t, out.String(), "Usage: concourse-ci-machine logs [ARGS]")
}
