//go:build e2e

package engines

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const dockerSocket = "unix:///run/docker-test.sock"

func docker(words ...string) (string, error) {
	return run(append([]string{"docker", "-H", dockerSocket}, words...)...)
}

// dockerd starts Docker by /etc/docker/daemon.json, without a network and with its own
// folders, and returns its process and what ends it.
func dockerd(t *testing.T) (p *os.Process, stop func()) {
	t.Helper()
	return daemon(t, func() bool { _, err := docker("version"); return err == nil },
		"dockerd", "--data-root", filepath.Join(dir, "docker"), "--exec-root", "/run/docker-test", "-H", dockerSocket,
		"--pidfile", "/run/docker-test.pid", "--storage-driver", "vfs", "--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false")
}

func TestDockerRunsContainersThroughTheWrapper(t *testing.T) {
	needPackage(t, "docker.io", "dockerd", "docker")
	describe(t)
	require.NoError(t, os.MkdirAll("/etc/docker", 0o755))
	require.NoError(t, os.WriteFile("/etc/docker/daemon.json", []byte("{\n  \"log-driver\": \"json-file\",\n  \"labels\": [\"a=b\"]\n}"), 0o640))
	before := snapshot(t, "/etc/docker/daemon.json", "/var/lib/concourse-ci-machine")
	require.Contains(t, dispatch(t, "runtime", "configure", "docker"), "docker reads it from: systemctl reload docker\n")
	daemon, stop := dockerd(t)
	_, err := docker("import", tarball(), "gpu-test")
	require.NoError(t, err)
	in := func(words ...string) (string, error) {
		return docker(append(append([]string{"run", "--rm", "--network", "none"}, words...), "gpu-test", "/bin/sh", "-c", probe)...)
	}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"--runtime", "amd", "-e", "AMD_VISIBLE_DEVICES=0"}, first},
		{[]string{"--runtime", "amd", "-e", "AMD_VISIBLE_DEVICES=amd.com/gpu=1"}, second},
		{[]string{"--runtime", "amd", "-e", "AMD_VISIBLE_DEVICES=all", "--user", "1234"}, both},
		{[]string{"--runtime", "amd", "-e", "GPU_COUNT=1"}, first},
		{[]string{"--runtime", "amd", "-e", "AMD_VISIBLE_DEVICES=none"}, nothing},
		{[]string{"--runtime", "amd"}, nothing},
		{[]string{"-e", "AMD_VISIBLE_DEVICES=0"}, nothing},
	} {
		out, err := in(c.words...)
		require.NoError(t, err, "%s: %s", c.words, out)
		require.Equal(t, c.want, out, c.words)
	}
	out, err := in("--runtime", "amd", "-e", "AMD_VISIBLE_DEVICES=7")
	require.Error(t, err)
	require.Contains(t, out, `cannot give the task the GPUs of AMD_VISIBLE_DEVICES="7": "7" is not a GPU that this machine gives; there are: 0 (GPU-a1b2c3d4e5f60000, 0000:03:00.0), 1 (0000:03:00.0-1) [container `)

	// What runs by `docker exec` is in the same container.
	_, err = docker("run", "--detach", "--name", "long", "--runtime", "amd", "--network", "none", "-e", "AMD_VISIBLE_DEVICES=0", "gpu-test", "/bin/busybox", "sleep", "1000")
	require.NoError(t, err)
	out, err = docker("exec", "--user", "1234", "long", "/bin/sh", "-c", probe)
	require.NoError(t, err, out)
	require.Equal(t, first, out)
	_, err = docker("rm", "--force", "long")
	require.NoError(t, err)

	dispatch(t, "runtime", "configure", "docker", "--set-as-default")
	require.NoError(t, daemon.Signal(syscall.SIGHUP)) // what systemctl reload does
	require.Eventually(t, func() bool {
		out, err := in("-e", "AMD_VISIBLE_DEVICES=1")
		return err == nil && out == second
	}, time.Minute, 50*time.Millisecond)

	require.Contains(t, dispatch(t, "runtime", "configure", "docker", "--remove"), "docker reads it from: systemctl restart docker\n")
	require.Equal(t, before, snapshot(t, "/etc/docker/daemon.json", "/var/lib/concourse-ci-machine"), "byte for byte as before")
	stop()
	dockerd(t)
	out, err = in("-e", "AMD_VISIBLE_DEVICES=1")
	require.NoError(t, err, out)
	require.Equal(t, nothing, out)
}
