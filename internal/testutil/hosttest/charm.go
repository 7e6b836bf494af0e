package hosttest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Source returns the top of the source tree. It searches above the working folder, a test's
// package, for the fixture hosts.
func Source() string { return filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(HostsDir())))) }

// Programs lists the charm's programs that no hook runs by itself.
var Programs = []string{"concourse-exporter", "gpu-baseline", "gpu-device-plugin", "gpu-dra-driver", "pebble",
	"rocm-exporter", "runc-amd-wrapper"}

// CharmDir returns a charm as Juju unpacks it, with empty programs.
func CharmDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for _, name := range Programs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", name), []byte(name), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dispatch"), []byte("dispatch"), 0o755))
	actions, err := os.ReadFile(filepath.Join(Source(), "actions.yaml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "actions.yaml"), actions, 0o644))
	for _, name := range []string{"prometheus_alert_rules", "loki_alert_rules", "grafana_dashboards"} {
		require.NoError(t, os.CopyFS(filepath.Join(dir, "src", name), os.DirFS(filepath.Join(Source(), "src", name))))
	}
	return dir
}

// Quiet returns a machine on which any command fails the test.
func Quiet(t testing.TB, r host.Root) host.Host {
	return host.Host{Root: r, Runner: NewRunner(t), Clock: Clock{T: Now}}
}

// Machine answers the charm's systemd commands, and runs the release's programs.
type Machine struct{ *Runner }

func NewMachine(t testing.TB) Machine {
	r := NewRunner(t).Answer("systemctl show", "").Answer("systemctl daemon-reload", "")
	return Machine{r}
}

func (m Machine) Run(ctx context.Context, c host.Command) ([]byte, error) {
	if filepath.Base(c.Argv[0]) == "concourse" {
		return host.Exec{}.Run(ctx, c)
	}
	return m.Runner.Run(ctx, c)
}
