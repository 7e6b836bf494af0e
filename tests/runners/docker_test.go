//go:build e2e

package runners

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/act"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// docker is Docker's daemon with the runtime amd, which leases the machine's GPUs, and the image
// "gpu-test" of busybox.
type docker struct {
	*machine
	host string // DOCKER_HOST
}

func newDocker(t *testing.T, flags ...string) docker {
	t.Helper()
	m := newMachine(t)
	suite.Need(t, suite.Lacks("docker.io runc busybox-static", "dockerd", "docker", "runc", "busybox"))
	short, err := os.MkdirTemp("", "d") // a socket's path has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = unix.Unmount(short+"/x/netns/default", unix.MNT_DETACH) // the host's, which dockerd leaves
		require.NoError(t, os.RemoveAll(short))
	})
	d := docker{m, "unix://" + short + "/s"}
	runtime := filepath.Join(short, "runtime")
	require.NoError(t, os.WriteFile(runtime, fmt.Appendf(nil,
		"#!/bin/sh\nRUNC_AMD_CONFIG=%s exec %s/runc-amd-wrapper \"$@\"\n", d.wrapperConfig(short), bin), 0o755))
	var log hosttest.Buffer
	// Its networks are in a namespace, which ends with it.
	c := exec.Command("unshare", append([]string{"--net", "dockerd", "--config-file", filepath.Join(short, "none.json"),
		"--data-root", short + "/data",
		"--exec-root", short + "/x", "--pidfile", short + "/pid", "-H", d.host, "--storage-driver", "vfs", "--bridge", "none",
		"--iptables=false", "--ip-forward=false", "--ip-masq=false", "--exec-opt", "native.cgroupdriver=cgroupfs",
		"--add-runtime", "amd=" + runtime}, flags...)...)
	c.Stdout, c.Stderr = &log, &log
	require.NoError(t, os.WriteFile(short+"/none.json", []byte("{}"), 0o600))
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(unix.SIGTERM)
		_ = c.Wait()
		if t.Failed() {
			t.Log(&log)
		}
	})
	require.Eventually(t, func() bool { _, err := d.call("version"); return err == nil }, 2*time.Minute,
		50*time.Millisecond)
	d.image(short)
	return d
}

// wrapperConfig writes what `gpukit runtime configure docker --exclusive` does, with nodes of this
// machine.
func (d docker) wrapperConfig(dir string) string {
	runc, err := exec.LookPath("runc")
	require.NoError(d.t, err)
	var devices, gpus []any
	for i, name := range d.addresses() {
		node, own := fmt.Sprintf("/dev/dri/renderD%d", 128+i), filepath.Join(dir, itoa(i))
		require.NoError(d.t, unix.Mknod(own, unix.S_IFCHR|0o666, int(unix.Mkdev(226, uint32(128+i)))))
		devices = append(devices, map[string]any{"name": itoa(i), "containerEdits": map[string]any{
			"deviceNodes": []any{map[string]any{"path": node, "hostPath": own}}}})
		gpus = append(gpus, map[string]any{"name": name, "cdi": "amd.com/gpu=" + itoa(i), "nodes": []string{node}})
	}
	write := func(name string, v any) string {
		data, err := json.Marshal(v)
		require.NoError(d.t, err)
		require.NoError(d.t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		return filepath.Join(dir, name)
	}
	spec := write("amd.json", map[string]any{"cdiVersion": "0.5.0", "kind": "amd.com/gpu", "devices": devices})
	return write("wrapper.json", map[string]any{"runtime": runc, "containers": "requested", "specs": []string{spec},
		"gpus": gpus, "visible": []string{"AMD_VISIBLE_DEVICES"}, "state": filepath.Join(dir, "state"),
		"leases": map[string]any{"dir": d.root.Path(lease.DefaultDir)}})
}

// image makes the image without a registry.
func (d docker) image(dir string) {
	d.t.Helper()
	root := filepath.Join(dir, "image")
	require.NoError(d.t, os.MkdirAll(root+"/bin", 0o755))
	require.NoError(d.t, os.Mkdir(root+"/tmp", 0o777))
	out, err := exec.Command("sh", "-ec", `cp "$(command -v busybox)" "$0/bin/busybox"
		for applet in $(busybox --list); do [ "$applet" = busybox ] || ln -s busybox "$0/bin/$applet"; done
		tar -C "$0" -cf "$0.tar" .`, root).CombinedOutput()
	require.NoError(d.t, err, string(out))
	text, err := d.call("import", root+".tar", "gpu-test")
	require.NoError(d.t, err, text)
}

func (d docker) call(words ...string) (string, error) {
	out, err := exec.Command("docker", append([]string{"-H", d.host}, words...)...).CombinedOutput()
	return string(out), err
}

// workflow runs the jobs of a workflow with act.
func (d docker) workflow(text string) (out string, passed bool) {
	d.t.Helper()
	dir := checkout(d.t, []byte(text))
	return act.Workflow(d.t, act.Program(d.t), act.Run{Dir: dir, Env: []string{"DOCKER_HOST=" + d.host},
		Args: []string{"--pull=false", "--container-daemon-socket=-"}})
}

// The options of a job's container are docker run's, for GitHub's runner, Gitea's and Forgejo's.
func TestContainersOfJobsLeaseGPUs(t *testing.T) {
	d := newDocker(t)
	job := func(name, options string) string {
		return fmt.Sprintf("  %s:\n    runs-on: self-hosted\n    container: {image: gpu-test, options: %q}\n    steps:\n"+
			"      - {shell: sh, run: 'echo \"%[1]s has\" $(ls /dev/dri 2>/dev/null)'}\n", name, options)
	}
	out, passed := d.workflow("on: push\njobs:\n" + job("one", "--runtime amd -e GPU_COUNT=1") +
		job("named", "--runtime amd -e AMD_VISIBLE_DEVICES=3") + job("none", "--runtime amd") +
		job("two", "--runtime amd -e GPU_COUNT=2"))
	require.True(t, passed, out)
	require.Regexp(t, `\| one has renderD12[89]|\| one has renderD13[01]`, out)
	require.Contains(t, out, "| named has renderD131\n")
	require.Regexp(t, `\| two has renderD\d+ renderD\d+\n`, out)
	require.Regexp(t, `\| none has\s*\n`, out)
	d.free()

	text, err := d.call("run", "--detach", "--network", "none", "--runtime", "amd", "-e", "GPU_COUNT=4", "gpu-test",
		"/bin/sleep", "10000")
	require.NoError(t, err, text)
	require.Len(t, d.held(), 4)
	out, passed = d.workflow("on: push\njobs:\n" + job("late", "--runtime amd -e GPU_COUNT=1"))
	require.False(t, passed, out)
	require.Contains(t, out, "cannot lease 1 GPU: 0 of 4 are free")
	text, err = d.call("rm", "--force", strings.TrimSpace(text))
	require.NoError(t, err, text)
	d.free()
}

// GitLab's executor docker (its source at 0074512f, executors/docker/docker.go) creates the
// containers of a job's services, of its clone and uploads, and of its script with the runtime of
// config.toml and all variables of the job. Those of a service come last.
func TestContainersOfGitLabsJobLeaseGPUs(t *testing.T) {
	d := newDocker(t)
	run := func(service bool, variables ...string) string {
		words := []string{"create", "--network", "none", "--runtime", "amd", "--interactive"}
		for _, v := range append([]string{"CI=true"}, variables...) {
			words = append(words, "-e", v)
		}
		script := `echo $(ls /dev/dri 2>/dev/null | wc -l)`
		if service {
			script += "; exec sleep 10000"
		}
		id, err := d.call(append(words, "gpu-test", "/bin/sh", "-c", script)...)
		require.NoError(t, err, id)
		id = strings.TrimSpace(id)
		t.Cleanup(func() { _, _ = d.call("rm", "--force", id) })
		if service {
			out, err := d.call("start", id)
			require.NoError(t, err, out)
			return ""
		}
		out, err := d.call("start", "--attach", id)
		require.NoError(t, err, out)
		return strings.TrimSpace(out)
	}
	require.Equal(t, "0", run(false), "a job without the variable")
	run(true, "GPU_COUNT=3", "AMD_VISIBLE_DEVICES=none")
	require.Empty(t, d.held(), "a service without GPUs")
	for _, container := range []string{"clone", "script", "uploads"} {
		require.Equal(t, "3", run(false, "GPU_COUNT=3"), container)
		d.free()
	}
	run(true, "GPU_COUNT=3")
	require.Len(t, d.held(), 3, "a service has the variables of its job")
}
