package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// found returns the command of a line.
func found(t *testing.T, root *cobra.Command, line string) *cobra.Command {
	t.Helper()
	c, _, err := root.Find(strings.Fields(line))
	require.NoError(t, err)
	return c
}

// The action and the command of one thing are one row in help: the command.
func TestActionsOfOtherCommandsAreHidden(t *testing.T) {
	t.Chdir("../../../..") // actions.yaml
	p := &caller{charm: &actions.Actions{Charm: &charm.Charm{Program: wellknown.MachineProgram}}}
	root, n := p.root(), 0
	for _, c := range p.unitCommands() {
		if c.action == "" {
			continue
		}
		n++
		require.Equal(t, "concourse-ci-machine "+c.action, found(t, root, c.action).CommandPath(), "no action %s", c.action)
		require.True(t, found(t, root, c.action).Hidden, c.action)
		require.False(t, found(t, root, c.words).Hidden, c.words)
	}
	require.Greater(t, n, 10)
	for _, shown := range []string{"check-status", "fleet", "plan", "why"} {
		require.False(t, found(t, root, shown).Hidden, shown)
	}
}

// Statuses name actions as commands, see wellknown.Commands.
func TestEachActionIsACommandWithoutJuju(t *testing.T) {
	t.Chdir("../../../..") // actions.yaml
	data, err := os.ReadFile("actions.yaml")
	require.NoError(t, err)
	var declared map[string]any
	require.NoError(t, yaml.Unmarshal(data, &declared))
	require.Greater(t, len(declared), 20)
	root := Root(wellknown.MachineProgram)
	for name := range declared {
		require.Equal(t, "concourse-ci-machine "+name, found(t, root, name).CommandPath())
	}
	var out, errs bytes.Buffer
	none := func(string) string { return "" }
	require.Zero(t, Main(wellknown.Dispatch, []string{wellknown.MachineProgram, "logs", "--help"}, none, &out, &errs), errs.String())
	require.Contains(t, out.String(), "Usage: concourse-ci-machine logs [ARGS]")
}

// The gpu of actions has no type, because it is a number or a name.
func TestEachParameterOfAnActionIsGivenWithoutJuju(t *testing.T) {
	t.Chdir("../../../..") // actions.yaml
	p := &caller{charm: &actions.Actions{Charm: &charm.Charm{}}}
	n := 0
	for _, a := range p.actions() {
		for _, name := range a.Order {
			n++
			value := map[string]string{"boolean": "true", "integer": "7"}[a.Params[name].Type]
			if value == "" {
				value = "0000:03:00.0"
			}
			given, err := a.given([]string{name + "=" + value})
			require.NoError(t, err, "%s %s", a.Name, name)
			require.Len(t, given, 1)
		}
		_, err := a.given([]string{"no-such=1"})
		require.ErrorContains(t, err, "cannot run "+a.Name)
	}
	require.Greater(t, n, 20)
}

func TestMachineAnswersWithoutACI(t *testing.T) {
	dir := t.TempDir()
	env := func(name string) string { return map[string]string{"CHARM_ROOT": dir}[name] }
	for line, want := range map[string]string{
		"join x":  "no such command; did you mean up?; see concourse-ci-machine --help",
		"foul":    `cannot run concourse-ci-machine "foul": no such command; see concourse-ci-machine --help`,
		"upgarde": "did you mean upgrade?",
		"purge":   "this machine runs no CI",
	} {
		var out, errs bytes.Buffer
		require.NotZero(t, Main(wellknown.Dispatch, append([]string{wellknown.MachineProgram}, strings.Fields(line)...), env, &out, &errs), line)
		require.Contains(t, errs.String(), want, line)
		require.NotContains(t, out.String()+errs.String(), "--yes", line)
	}
}

// The man page of gpukit is made of the same texts.
func TestVariablesOfFlagsAreInTheHelpOfGPUKit(t *testing.T) {
	root := Root(wellknown.GPUKit)
	note := func(c *cobra.Command) string { return c.Annotations[commandline.Note] }
	require.Contains(t, note(root), "GPUKIT_CDI_GENERATE_OUTPUT is --output of gpukit cdi generate")
	require.Contains(t, note(found(t, root, "cdi generate")), "GPUKIT_CDI_GENERATE_OUTPUT is --output")
	require.Empty(t, note(found(t, root, "gpu list")))
}

// Pebble and the units of a machine without Juju start its program by the file dispatch.
func TestFileOfAMachineWithoutJujuIsItsProgram(t *testing.T) {
	dir := t.TempDir()
	env := func(name string) string { return map[string]string{"CHARM_ROOT": dir}[name] }
	help := func() string {
		var out, errs bytes.Buffer
		require.Zero(t, Main(wellknown.Dispatch, []string{"dispatch", "gpu", "detect", "--help"}, env, &out, &errs), errs.String())
		return out.String()
	}
	require.Contains(t, help(), "Usage: dispatch gpu detect")
	hosttest.Put(t, host.Root(dir), "/var/lib/concourse-ci-machine/machine.json", "{}")
	require.Contains(t, help(), "Usage: concourse-ci-machine gpu detect")
}
