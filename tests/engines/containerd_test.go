//go:build e2e

package engines

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"
)

const containerdSocket = "/run/containerd-test.sock"

// containerdFile is containerd's configuration with folders and its own socket.
func containerdFile() string {
	return fmt.Sprintf("version = 2 # theirs\nroot = %q\nstate = \"/run/containerd-test\"\n[grpc]\naddress = %q\n", dir+"/containerd", containerdSocket)
}

// containerd starts it by its file.
func containerd(t *testing.T) {
	t.Helper()
	daemon(t, func() bool { _, err := ctr("version"); return err == nil }, "containerd")
}

func ctr(words ...string) (string, error) {
	return run(append([]string{"ctr", "--address", containerdSocket}, words...)...)
}

// containerd prints its reading of what was put into its file, and starts with it.
func TestContainerdTakesTheRuntime(t *testing.T) {
	needPackage(t, "containerd", "containerd", "ctr")
	describe(t)
	const file = "/etc/containerd/config.toml"
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	theirs := containerdFile() + "[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    sandbox_image = \"example.com/pause:1\"\n"
	require.NoError(t, os.WriteFile(file, []byte(theirs), 0o644))
	before := snapshot(t, "/etc/containerd", "/var/lib/concourse-ci-machine")
	dispatch(t, "runtime", "configure", "containerd", "--set-as-default")

	var read struct {
		Plugins map[string]struct {
			Sandbox    string `toml:"sandbox_image"`
			Containerd struct {
				Default  string `toml:"default_runtime_name"`
				Runtimes map[string]struct {
					Options map[string]any `toml:"options"`
				} `toml:"runtimes"`
			} `toml:"containerd"`
		} `toml:"plugins"`
	}
	require.NoError(t, toml.Unmarshal([]byte(must(t, "containerd", "config", "dump")), &read))
	cri := read.Plugins["io.containerd.grpc.v1.cri"]
	require.Equal(t, "example.com/pause:1", cri.Sandbox)
	require.Equal(t, "amd", cri.Containerd.Default)
	require.Contains(t, cri.Containerd.Runtimes, "runc", "it keeps its own")
	require.Equal(t, wrapper(), cri.Containerd.Runtimes["amd"].Options["BinaryName"])

	containerd(t)
	for value, want := range map[string]string{"1": second, "none": nothing, "all": both} {
		out, err := ctr("run", "--rm", "--runc-binary", wrapper(), "--env", "AMD_VISIBLE_DEVICES="+value, "--rootfs", filepath.Join(dir, "image"), "of-"+value, "/bin/sh", "-c", probe)
		require.NoError(t, err, out)
		require.Equal(t, want, out, value)
	}
	l := exclusive(t)
	gpu := func(name string, more ...string) (string, error) {
		words := append([]string{"run", "--runc-binary", wrapper(), "--env", "AMD_VISIBLE_DEVICES=1", "--rootfs"}, more...)
		return ctr(append(words, filepath.Join(dir, "image"), name, "/bin/busybox", "sleep", "1000")...)
	}
	out, err := gpu("leases", "--detach")
	require.NoError(t, err, out)
	require.Equal(t, "container leases of containerd", holder(t, l, 1))
	out, err = gpu("refused", "--rm")
	require.Error(t, err)
	require.Contains(t, out, "is held by container leases of containerd since ")
	require.Contains(t, out, "see ctr --namespace default containers info leases)")
	_, err = ctr("task", "kill", "--signal", "9", "leases")
	require.NoError(t, err)
	isFree(t, l, 1)

	dispatch(t, "runtime", "configure", "containerd", "--remove")
	require.Equal(t, before, snapshot(t, "/etc/containerd", "/var/lib/concourse-ci-machine"), "byte for byte as before")
}
