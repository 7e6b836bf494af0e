package demo

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	_ "github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox/demo" // go build, below, is nothing that go test knows of
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// built is the folder of the built programs.
var built string

func TestMain(m *testing.M) {
	os.Exit(suite.InFolder(m, func(dir string) error {
		built = filepath.Join(dir, "bin")
		return suite.Charm(dir)
	}))
}

// command returns the demo of the hooks, with its temporary files below tmp.
func command(t *testing.T, args ...string) (c *exec.Cmd, tmp string) {
	t.Helper()
	return demoCommand(t, append([]string{"-hooks"}, args...)...)
}

// demoCommand returns the demo that fits this machine, with its temporary files below tmp.
func demoCommand(t *testing.T, args ...string) (c *exec.Cmd, tmp string) {
	t.Helper()
	tmp, err := os.MkdirTemp("", "demo") // t.TempDir's is too long a path for sockets below it
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(tmp) })
	require.NoError(t, os.Chmod(tmp, 0o755)) // as /tmp: the exporter runs as no one
	c = exec.Command(filepath.Join(built, "sandbox"), append([]string{"demo", "-bin", built}, args...)...)
	c.Dir = hosttest.Source()
	c.Env = append(environ(), "TMPDIR="+tmp)
	return c, tmp
}

// environ is this environment without the variables that end the demo early.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "CI=") || strings.HasPrefix(v, "NO_SERVE=")
	})
}

func requireNothingLeft(t *testing.T, tmp string) {
	t.Helper()
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, p := range processes {
		line, err := os.ReadFile(p)
		if err == nil { // one may have ended since
			require.NotContains(t, string(line), tmp, p)
		}
	}
}

func TestDemoShowsWhatTheWorkerIsFor(t *testing.T) {
	for name, args := range map[string][]string{"in short": nil, "in full": {"-v"}} {
		t.Run(name, func(t *testing.T) {
			c, tmp := command(t, args...)
			var errs bytes.Buffer
			c.Stderr = &errs
			out, err := c.Output()
			require.NoError(t, err, errs.String())
			require.Empty(t, errs.String())
			text := string(out)
			require.NotContains(t, text, "\x1b", "colours are for terminals")
			require.Contains(t, text, "tags: gpu, compute-runtime=rocm, rocm, gpu-count=1, gfx=gfx1100\n")
			require.Contains(t, text, "  CDI       device amd.com/gpu=0 in /etc/cdi/amd.json: /dev/kfd,\n")
			require.True(t, strings.HasPrefix(text, "This demo runs the hooks of one Juju unit in a throwaway folder, with stand-in\nGPUs. "+
				"It runs no real Concourse and uses no real GPU.\n"+
				"  no CI     the demo of a whole CI is left out with -hooks\n"+
				"  real CI   on this machine: sudo concourse-ci-machine up\n            (docs/tutorial/own-machine.md)\n\n"), text)
			require.FileExists(t, filepath.Join(hosttest.Source(), "docs/tutorial/own-machine.md"))
			require.Equal(t, 1, strings.Count(text, "  failed    "), "only the staged failure")
			require.Contains(t, text, "  failed    staged: 1/23 fetch apt key ")
			require.Contains(t, text, "  staged    this failure, to show ")
			require.Contains(t, text, "  status    active: Worker ready (v8.2.5) (GPU: 1x AMD)\n")
			require.Equal(t, len(args) > 0, strings.Contains(text, "  ok        5/23 write /etc/cdi/amd.json (missing)\n"))
			require.Regexp(t, regexp.MustCompile(`rocm_memory_utilization  17 % +of the time it was read or written\n`), text)
			for line := range strings.Lines(text) {
				// A path of this machine's may be one long word.
				if !strings.Contains(line, tmp) {
					require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
				}
			}
			_, summary, found := strings.Cut(text, "\n== Shown =")
			require.True(t, found)
			scenes, end, found := strings.Cut(summary, "  not run   a look at the status page: the output is not a terminal\n")
			require.True(t, found, "it does not wait: %s", summary)
			require.Equal(t, 6, strings.Count(scenes, "\n"), "its own line and five: %s", scenes)
			require.Equal(t, "\nNothing was left behind.\n", end)
			requireNothingLeft(t, tmp)
		})
	}
}

// started is the demo that runs, with what it writes.
func started(t *testing.T) (c *exec.Cmd, tmp string, out io.ReadCloser, errs *bytes.Buffer) {
	t.Helper()
	c, tmp = command(t)
	errs = &bytes.Buffer{}
	c.Stderr = errs
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	return c, tmp, out, errs
}

// What interrupts it comes in the middle of its first hooks.
func TestInterruptedDemoLeavesNothing(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "kill": syscall.SIGTERM, "the terminal goes": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			c, tmp, out, errs := started(t)
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "  CDI  ") { // with Pebble running
			}
			require.NoError(t, c.Process.Signal(signal))
			rest, err := io.ReadAll(out)
			require.NoError(t, err)
			require.Error(t, c.Wait())
			require.Equal(t, 128+int(signal), c.ProcessState.ExitCode())
			require.Equal(t, "sandbox: stopped: "+signal.String()+"; nothing was left behind\n", errs.String())
			require.NotContains(t, string(rest), "Shown")
			requireNothingLeft(t, tmp)
		})
	}
}

// As with `make demo | head -3`.
func TestClosedPipeLeavesNothing(t *testing.T) {
	c, tmp, out, errs := started(t)
	lines := bufio.NewScanner(out)
	for range 3 {
		require.True(t, lines.Scan())
	}
	require.NoError(t, out.Close())
	require.NoError(t, c.Wait(), errs.String())
	require.Empty(t, errs.String(), "whoever closed it has seen enough")
	requireNothingLeft(t, tmp)
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-x"}, {"more"}} {
		c, _ := command(t, args...)
		out, _ := c.CombinedOutput()
		require.Equal(t, 2, c.ProcessState.ExitCode())
		require.Contains(t, string(out), "sandbox demo [-v] [-hooks] [-option NAME=VALUE] [-bin FOLDER]")
	}
}
