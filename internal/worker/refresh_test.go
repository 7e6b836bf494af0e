package worker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host/hosttest"
)

// systemd itself reads the units; the program is replaced by one that exists.
func TestSystemdUnderstandsTheRefreshUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed: the units' syntax was not checked")
	}
	d := Desire(observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "rocm"}), nil)
	dir := t.TempDir()
	var files []string
	for _, name := range []string{refreshService, refreshTimer, RefreshUnit} {
		text := strings.ReplaceAll(mustFile(t, d, unitDir+name), dispatchBin, "/bin/true")
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		files = append(files, filepath.Join(dir, name))
	}
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no", "--recursive-errors=no"}, files...)...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		require.NotContains(t, line, "concourse-cdi-refresh", "systemd-analyze: %s", out)
	}
	require.NoError(t, err, "systemd-analyze: %s", out)
}
