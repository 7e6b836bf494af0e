package concourse

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

func TestWorkerUnit(t *testing.T) {
	unit, err := WorkerUnit()
	require.NoError(t, err)
	require.Equal(t, "/etc/systemd/system/concourse-worker.service", unit.Path)
	hosttest.Golden(t, "testdata/concourse-worker.service", string(unit.Data))
}

// systemd itself reads the unit; the paths are replaced by ones that exist
// here, as verify looks for the programs too.
func TestSystemdUnderstandsTheUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed: the unit's syntax was not checked")
	}
	unit, err := WorkerUnit()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), Unit)
	text := strings.NewReplacer(release.BinDir+"/concourse", "/bin/true", "WorkingDirectory="+release.HomeDir, "WorkingDirectory=/").Replace(string(unit.Data))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", file).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		require.NotContains(t, line, Unit, "systemd-analyze: %s", out)
	}
	require.NoError(t, err, "systemd-analyze: %s", out)
}

// The launcher is run by the shell that will run it: shims must find the wrapper before
// anything more, and containerd keeps the launcher's process.
func TestLauncherRunsTheReleasesContainerd_D48_D51(t *testing.T) {
	f, err := ContainerdLauncher()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), f.Mode)
	root := hosttest.Root(t)
	hosttest.Put(t, root, realContainerd, "#!/bin/sh\necho \"$$ $PATH $*\"\n")
	require.NoError(t, os.Chmod(root.Path(realContainerd), 0o755))
	script := strings.ReplaceAll(string(f.Data), realContainerd, root.Path(realContainerd))
	hosttest.Put(t, root, Launcher, script)
	cmd := exec.Command("/bin/sh", root.Path(Launcher), "--config", "a b")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	out := make([]byte, 1024)
	n, err := pipe.Read(out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	f1, rest, _ := strings.Cut(strings.TrimSpace(string(out[:n])), " ")
	require.Equal(t, runtimeDir+":/usr/bin:/bin --config a b", rest)
	require.Equal(t, strconv.Itoa(cmd.Process.Pid), f1, "exec keeps the process")
}

func TestOperatorsFileIsMadeOnce(t *testing.T) {
	h := hosttest.Real(t)
	require.NoError(t, resourcetest.Apply(t, h, OperatorEnv{}))
	data, err := h.ReadFile(OperatorEnvFile)
	require.NoError(t, err)
	require.Empty(t, data)
	hosttest.Put(t, h.Root, OperatorEnvFile, "CONCOURSE_TEAM=mine\n")
	require.Empty(t, resourcetest.Ops(t, h, OperatorEnv{}))
}

func TestFoldersAreMadeOnce(t *testing.T) {
	h := hosttest.Real(t)
	require.NoError(t, resourcetest.Apply(t, h, Folders(false)...))
	require.Empty(t, resourcetest.Ops(t, h, Folders(false)...))
	st, err := h.Stat(KeyDir)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, st.Mode())
}
