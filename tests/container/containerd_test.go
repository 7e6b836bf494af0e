//go:build e2e

package container

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// containerd starts Debian's containerd with folders and its own socket, and a wrapper that
// its shims find first on their PATH. It returns what calls ctr, containerd's own client.
func (b *bed) containerd() func(words ...string) (string, error) {
	b.t.Helper()
	for _, tool := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		if _, err := exec.LookPath(tool); err != nil {
			why := tool + " is not installed (Debian: containerd)"
			if os.Getenv("E2E") == "1" && !strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ",containerd,") {
				b.t.Fatal(why)
			}
			b.t.Skip(why)
		}
	}
	// Shims keep their sockets here, whatever the configuration has.
	require.NoError(b.t, os.MkdirAll("/run/containerd", 0o711))
	require.NoError(b.t, syscall.Mount("tmpfs", "/run/containerd", "tmpfs", 0, "mode=711"))
	b.t.Cleanup(func() { require.NoError(b.t, syscall.Unmount("/run/containerd", syscall.MNT_DETACH)) })
	require.NoError(b.t, os.Mkdir(b.path("path"), 0o755))
	require.NoError(b.t, os.Symlink(os.Getenv(insideEnv)+"/runc-amd-wrapper", b.path("path/runc")))
	socket := b.path("containerd.sock")
	config := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		b.path("containerd"), "/run/containerd/state", socket)
	require.NoError(b.t, os.WriteFile(b.path("config.toml"), []byte(config), 0o600))
	daemon := exec.Command("containerd", "--config", b.path("config.toml"), "--log-level", "error")
	daemon.Env = append(os.Environ(), "PATH="+b.path("path")+":"+os.Getenv("PATH"), oci.EnvConfig+"="+b.path("wrapper.json"))
	log := &strings.Builder{}
	daemon.Stdout, daemon.Stderr = log, log
	require.NoError(b.t, daemon.Start())
	b.t.Cleanup(func() {
		require.NoError(b.t, daemon.Process.Signal(syscall.SIGTERM))
		_ = daemon.Wait() // how it ends is not a part of the test
		if b.t.Failed() {
			b.t.Log(log)
		}
	})
	ctr := func(words ...string) (string, error) {
		out, err := exec.Command("ctr", append([]string{"--address", socket, "--connect-timeout", "30s", "--namespace", "concourse"}, words...)...).CombinedOutput()
		return string(out), err
	}
	said := ""
	up := func() bool { // the socket is there before someone listens at it
		var err error
		said, err = ctr("version")
		return err == nil
	}
	require.Eventually(b.t, up, time.Minute, 50*time.Millisecond, "%s", &said)
	return ctr
}

// A person reads a build's output and nothing more: the reason must be there word for word,
// through the shim and containerd.
func TestRefusalReachesTheUserThroughContainerd(t *testing.T) {
	b := newBed(t, 0o660)
	b.configure(oci.Config{GPUs: oneGPU, Visible: []string{"AMD_VISIBLE_DEVICES"}})
	ctr := b.containerd()
	b.bundle()
	run := func(id, value string) (string, error) {
		return ctr("run", "--rm", "--rootfs", "--env", "AMD_VISIBLE_DEVICES="+value,
			"--mount", "type=bind,src="+b.path("volume")+",dst=/tmp/build/0badcafe,options=rbind:rw",
			b.path("bundle/rootfs"), id, "/bin/busybox", "sh", "-c", probe)
	}
	out, err := run(b.id+"-refused", "7")
	require.Error(t, err)
	require.Contains(t, out, `OCI runtime create failed: runc-amd-wrapper: cannot give the task the GPUs of AMD_VISIBLE_DEVICES="7": `+
		`"7" is not a GPU that this machine gives; there are: 0 [container `+b.id+`-refused]`)

	out, err = run(b.id+"-narrowed", "0")
	require.NoError(t, err, out)
	require.Equal(t, selected, found(out))

	out, err = run(b.id+"-none", "none")
	require.NoError(t, err, out)
	require.Equal(t, nothing, found(out))

	out, err = ctr("run", "--rm", "--rootfs", "--env", "GPU_FIXED_CLOCKS=1",
		"--mount", "type=bind,src="+b.path("volume")+",dst=/tmp/build/0badcafe,options=rbind:rw",
		b.path("bundle/rootfs"), b.id+"-measures", "/bin/busybox", "sh", "-c", `cat "$GPU_FIXED_CLOCKS_RECORD"`)
	require.NoError(t, err, out)
	require.Contains(t, out, `{"valid": false, "reason": "the clocks of its GPUs are not fixed: its GPUs are shared, not leased", `)

	out, err = ctr("containers", "list", "-q")
	require.NoError(t, err)
	require.Empty(t, strings.TrimSpace(out), "the refused container is gone, too")
}
