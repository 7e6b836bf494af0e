package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// eachCommand calls f for every command and group that people see.
func eachCommand(c *cobra.Command, f func(c *cobra.Command)) {
	f(c)
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			eachCommand(s, f)
		}
	}
}

func TestEachCommandHasHelpOf80Columns(t *testing.T) {
	n := 0
	eachCommand(Root(wellknown.Dispatch), func(c *cobra.Command) {
		if c.DisableFlagParsing {
			return
		}
		n++
		line := strings.TrimPrefix(c.CommandPath()+" --help", "dispatch ")
		code, out, errs := dispatch(t, "no-gpu", line)
		require.Zero(t, code, "%s: %s", line, errs)
		require.Empty(t, errs)
		require.True(t, strings.HasPrefix(out, "Usage: "+c.CommandPath()), out)
		for l := range strings.Lines(out) {
			require.LessOrEqual(t, len(strings.TrimRight(l, "\n")), 80, l)
		}
		_, again, _ := dispatch(t, "no-gpu", strings.TrimSuffix(line, "--help")+"-h")
		require.Equal(t, out, again)
		_, again, _ = dispatch(t, "no-gpu", "help "+strings.TrimSuffix(line, "--help"))
		require.Equal(t, out, again)
	})
	require.Greater(t, n, 25)
}

func TestHelpOfACommandHasItsFlags(t *testing.T) {
	_, out, _ := dispatch(t, "no-gpu", "gpu release 0 --help")
	require.Equal(t, `Usage: dispatch gpu release GPU [--force]

Free a GPU with a lease that is damaged or in doubt.

Flags:
  --force               free it even if its task may still run

Exit status: 0 done, 1 failed or something is broken, 2 wrong command line.
`, out)
}

func TestHelpOfAGroupHasItsCommandsAndNoHiddenOne(t *testing.T) {
	_, all, _ := dispatch(t, "no-gpu", "--help")
	for _, c := range []string{"plan", "gpu", "cdi", "explain", "completion"} {
		require.Contains(t, all, "\n  "+c+" ")
	}
	_, group, _ := dispatch(t, "no-gpu", "gpu --help")
	require.Contains(t, group, "\n  quarantine ")
	require.NotContains(t, group, "probe")
}

func TestHelpOfAnUnknownCommandIsAnError(t *testing.T) {
	code, _, errs := dispatch(t, "no-gpu", "gpu lost --now")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "cannot run dispatch gpu: unknown flag: --now")
}
