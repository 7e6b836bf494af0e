package oci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/oci/deadmount"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// built is the program as `make build` makes it.
func built(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runc-amd-wrapper")
	const version = "-X github.com/fourdollars/concourse-ci-machine/internal/base/version.linked=v1.2.3-4-gabc"
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w "+version, "-o", path,
		"github.com/fourdollars/concourse-ci-machine/src/runc-amd-wrapper")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

func TestBuiltProgram(t *testing.T) {
	path := built(t)
	t.Run("is small and does nothing before main", func(t *testing.T) { isSmall(t, path) })
	t.Run("probes a directory", func(t *testing.T) { probes(t, path) })
}

// isSmall requires a small program without init functions. The start of each container pays
// for both.
func isSmall(t *testing.T, path string) {
	t.Helper()
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.LessOrEqual(t, st.Size(), int64(4<<20))

	c := exec.Command(path, infoCommand)
	c.Env = []string{"GODEBUG=inittrace=1", EnvConfig + "=/nowhere"}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "init runtime @", "the trace is there")
	require.Contains(t, string(out), "runc-amd-wrapper v1.2.3-4-gabc\n")
	for line := range strings.Lines(string(out)) {
		require.False(t, strings.HasPrefix(line, "init github.com/fourdollars/concourse-ci-machine/"), line)
	}
}

// probes requires the answer for the directory itself.
func probes(t *testing.T, path string) {
	t.Helper()
	for dir, want := range map[string]int{t.TempDir(): 0, "/nowhere": int(unix.ENOENT)} {
		c := exec.Command(path, deadmount.Command, dir)
		err := c.Run()
		require.Equal(t, want, c.ProcessState.ExitCode(), "%s: %v", dir, err)
	}
}
