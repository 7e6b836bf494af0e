//go:build e2e

package engines

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// CRI-O takes in what was put into its folder, and a pod by the handler amd has the GPUs
// that it asks for.
func TestCRIOTakesTheRuntime(t *testing.T) {
	needPackage(t, "podman", "podman", "conmon") // Podman's storage is CRI-O's, and makes its images
	program := needBuilt(t, "crio")
	describe(t)
	p := podman{root: filepath.Join(dir, "crio-root"), runRoot: "/run/crio-test"}
	p.load(t)
	conmon, err := exec.LookPath("conmon")
	require.NoError(t, err)
	runc, err := exec.LookPath("runc")
	require.NoError(t, err)
	const socket = "/run/crio-test.sock"
	require.NoError(t, os.MkdirAll("/etc/crio", 0o755))
	require.NoError(t, os.WriteFile("/etc/crio/crio.conf", fmt.Appendf(nil, `[crio]
root = %q
runroot = %q
storage_driver = "vfs"
log_dir = %q
[crio.api]
listen = %q
[crio.image]
pause_image = "localhost/gpu-test"
[crio.runtime] # theirs
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
pinns_path = %q
default_runtime = "runc"
[crio.runtime.runtimes.runc]
runtime_path = %q
monitor_path = %q
monitor_cgroup = "pod"
`, p.root, p.runRoot, filepath.Join(dir, "crio-log"), socket, filepath.Join(dir, "pinns"), runc, conmon), 0o644))
	before := snapshot(t, "/etc/crio", "/var/lib/concourse-ci-machine")
	answers := func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	pod := func(handler, value string) (string, error) {
		return run(filepath.Join(dir, "cri"), socket, handler, "localhost/gpu-test", t.TempDir(), "AMD_VISIBLE_DEVICES="+value, "--", "/bin/sh", "-c", probe)
	}

	dispatch(t, "runtime", "configure", "crio")
	_, stop := daemon(t, answers, program)
	for _, c := range []struct{ handler, value, want string }{
		{"amd", "1", second}, {"amd", "all", both}, {"amd", "none", nothing}, {"runc", "1", nothing}, {"", "1", nothing},
	} {
		out, err := pod(c.handler, c.value)
		require.NoError(t, err, out)
		require.Equal(t, c.want, out, c)
	}
	out, err := pod("amd", "7")
	require.Error(t, err)
	require.Contains(t, out, `"7" is not a GPU that this machine gives; there are: 0 (GPU-a1b2c3d4e5f60000, 0000:03:00.0), 1 (0000:03:00.0-1) [container `)
	// A device plugin gives a CDI name, or nodes, to which CRI-O gives no mode.
	for _, given := range []string{"--device=amd.com/gpu=0", "--nodes=/dev/kfd,/dev/dri/renderD128"} {
		for _, user := range []string{"--user=0", "--user=1000"} {
			out, err := run(filepath.Join(dir, "cri"), given, user, socket, "runc", "localhost/gpu-test", t.TempDir(), "--", "/bin/sh", "-c", probe)
			require.NoError(t, err, "%s %s: %s", given, user, out)
			require.Equal(t, first, out, given+" "+user)
		}
	}
	stop()

	dispatch(t, "runtime", "configure", "crio", "--set-as-default")
	_, stop = daemon(t, answers, program)
	out, err = pod("", "1")
	require.NoError(t, err, out)
	require.Equal(t, second, out)
	stop()

	dispatch(t, "runtime", "configure", "crio", "--remove")
	require.Equal(t, before, snapshot(t, "/etc/crio", "/var/lib/concourse-ci-machine"), "byte for byte as before")
	daemon(t, answers, program)
	out, err = pod("amd", "1")
	require.Error(t, err)
	require.Contains(t, out, "amd")
}
