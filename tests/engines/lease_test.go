//go:build e2e

package engines

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// exclusive is a unit with gpu-sharing=exclusive and container-engines, and its leases.
func exclusive(t *testing.T) lease.Leases {
	t.Helper()
	runc, err := exec.LookPath("runc")
	require.NoError(t, err)
	l := lease.Leases{Dir: lease.DefaultDir, GPUs: []string{"0000:03:00.0", "0000:04:00.0"}}
	data, err := json.Marshal(oci.Config{
		Runtime: runc, Containers: oci.Requested, Specs: []string{cdi.Path}, Visible: []string{"AMD_VISIBLE_DEVICES"},
		GPUs: []oci.GPU{{Name: l.GPUs[0], CDI: "amd.com/gpu=0", Nodes: suite.StandIns[1:2]},
			{Name: l.GPUs[1], CDI: "amd.com/gpu=1", Nodes: suite.StandIns[2:3]}}, Leases: &oci.Leases{Dir: l.Dir}})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(oci.DefaultConfig), 0o755))
	require.NoError(t, os.WriteFile(oci.DefaultConfig, data, 0o600))
	t.Cleanup(func() {
		require.NoError(t, os.RemoveAll(filepath.Dir(oci.DefaultConfig)))
		require.NoError(t, os.RemoveAll(l.Dir))
	})
	return l
}

// holder is who holds a GPU, as people are reported; "" for no one.
func holder(t *testing.T, l lease.Leases, gpu int) string {
	t.Helper()
	states, _, err := l.Read()
	require.NoError(t, err)
	require.Empty(t, states[gpu].Doubt)
	if !states[gpu].Held {
		return ""
	}
	return states[gpu].Holder()
}

func isFree(t *testing.T, l lease.Leases, gpu int) {
	t.Helper()
	require.Eventually(t, func() bool { return holder(t, l, gpu) == "" }, time.Minute, 20*time.Millisecond)
}

// No two of a task, a pod, Docker's and Podman's containers have one GPU, however they ask,
// and it is free when who has it no longer exists.
func TestEnginesTasksAndPodsHaveNoGPUTogether(t *testing.T) {
	needPackage(t, "docker.io", "dockerd", "docker")
	needPackage(t, "podman", "podman")
	describe(t)
	require.NoError(t, os.MkdirAll("/etc/docker", 0o755))
	require.NoError(t, os.WriteFile("/etc/docker/daemon.json", []byte("{}"), 0o640))
	dispatch(t, "runtime", "configure", "docker")
	t.Cleanup(func() { dispatch(t, "runtime", "configure", "docker", "--remove") }) // what it remembers outlives this /etc
	dockerd(t)
	_, err := docker("import", tarball(), "gpu-test")
	require.NoError(t, err)
	p := podman{root: filepath.Join(dir, "podman"), runRoot: "/run/podman-test"}
	p.load(t)
	l := exclusive(t)
	start := func(words ...string) (id, out string, err error) {
		out, err = docker(append(append([]string{"run", "--detach", "--network", "none", "--runtime", "amd"}, words...), "gpu-test", "/bin/busybox", "sleep", "1000")...)
		return strings.TrimSpace(out), out, err
	}
	byPodman := func(words string) (string, error) { return p.probe("--runtime "+wrapper(), words) }

	id, out, err := start("--name", "d0", "-e", "AMD_VISIBLE_DEVICES=0")
	require.NoError(t, err, out)
	require.Equal(t, "container "+id[:12]+" of docker", holder(t, l, 0))
	for _, words := range []string{"-e AMD_VISIBLE_DEVICES=0", "--device amd.com/gpu=0", "--device /dev/dri/renderD128", "--privileged"} {
		out, err := byPodman(words)
		require.Error(t, err, words)
		require.Regexp(t, `cannot lease . GPUs?: .* is held by container `+id[:12]+` of docker since .*; see docker ps --filter id=`+id[:12]+`\)`, out, words)
	}
	shown, err := docker("ps", "--quiet", "--filter", "id="+id[:12])
	require.NoError(t, err)
	require.Equal(t, id[:12]+"\n", shown)
	out, err = docker("exec", "d0", "/bin/sh", "-c", probe)
	require.NoError(t, err, out)
	require.Equal(t, first, out)
	require.Equal(t, "container "+id[:12]+" of docker", holder(t, l, 0), "what came by exec has ended")

	// Podman's own CDI, with the wrapper as its runtime: exactly that GPU is leased.
	out, err = p.run("--runtime", wrapper(), "run", "--detach", "--network", "none", "--device", "amd.com/gpu=1", "gpu-test", "/bin/busybox", "sleep", "1000")
	require.NoError(t, err, out)
	other := strings.TrimSpace(out)
	require.Equal(t, "container "+other[:12]+" of podman", holder(t, l, 1))
	_, out, err = start("--device", "/dev/dri/renderD129")
	require.Error(t, err)
	require.Contains(t, out, "is held by container "+other[:12]+" of podman since ")
	out, err = p.run("exec", other, "/bin/sh", "-c", "exit 0")
	require.NoError(t, err, out)
	out, err = p.run("rm", "--force", "--time", "0", other)
	require.NoError(t, err, out)
	isFree(t, l, 1)

	// Whoever ends it, and however.
	for name, end := range map[string]func(){
		"killed":  func() { _, err = docker("kill", "d0") },
		"removed": func() { _, err = docker("rm", "--force", "d0") },
		"shim": func() {
			out, err = docker("inspect", "--format", "{{.State.Pid}}", "d0")
			require.NoError(t, err, out)
			text, failed := os.ReadFile("/proc/" + strings.TrimSpace(out) + "/stat")
			require.NoError(t, failed)
			shim, failed := strconv.Atoi(strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[1])
			require.NoError(t, failed)
			err = syscall.Kill(shim, syscall.SIGKILL)
		},
		"restarted, and killed": func() {
			_, err = docker("restart", "--time", "0", "d0")
			require.NoError(t, err)
			require.Equal(t, "container "+id[:12]+" of docker", holder(t, l, 0))
			_, err = docker("kill", "d0")
		},
	} {
		_, _ = docker("rm", "--force", "d0") // there may be none
		id, out, err = start("--name", "d0", "-e", "AMD_VISIBLE_DEVICES=0")
		require.NoError(t, err, "%s: %s", name, out)
		require.Equal(t, "container "+id[:12]+" of docker", holder(t, l, 0), name)
		end()
		require.NoError(t, err, name)
		isFree(t, l, 0)
		out, err = byPodman("-e AMD_VISIBLE_DEVICES=0")
		require.NoError(t, err, "%s: %s", name, out)
		require.Equal(t, first, out)
		isFree(t, l, 0)
	}

	// A task and a pod: this process is the call that leases for one, and the keeper of the other.
	_, err = l.Take(lease.Call{Container: "4f1c", Bundle: dir, PidFile: dir + "/none", Cgroup: "4f1c", PID: os.Getpid()}, lease.Want{Of: []int{0}, Count: 1})
	require.NoError(t, err)
	require.NoError(t, l.HoldForPod("team-a/train-0/main", []int{1}, nil))
	out, err = byPodman("-e AMD_VISIBLE_DEVICES=0")
	require.Error(t, err)
	require.Contains(t, out, "is held by the task of container 4f1c since ")
	for _, words := range [][]string{{"-e", "AMD_VISIBLE_DEVICES=1"}, {"--device", "/dev/dri/renderD129"}} {
		_, out, err = start(words...)
		require.Error(t, err)
		require.Contains(t, out, "is held by pod team-a/train-0, container main since ")
		require.Contains(t, out, "see kubectl --namespace team-a get pod train-0)")
	}
	require.NoError(t, l.ReleasePod([]int{1}))
	out, err = byPodman("--device amd.com/gpu=1")
	require.NoError(t, err, out)

	out, err = byPodman("--pid host -e AMD_VISIBLE_DEVICES=1")
	require.Error(t, err)
	require.Contains(t, out, "run it without --pid (Kubernetes: hostPID, shareProcessNamespace)")
}

// Leases are root's to take.
func TestEngineWithoutRootIsRefusedOnAUnit(t *testing.T) {
	needPackage(t, "podman", "podman")
	needPackage(t, "crun", "crun")
	needPackage(t, "uidmap", "newuidmap")
	describe(t)
	nodes(t, 0, 0, 0o666)
	a := user(t)
	a.load(t)
	exclusive(t)
	out, err := a.probe("--runtime "+wrapper(), "-e AMD_VISIBLE_DEVICES=0")
	require.Error(t, err)
	require.Contains(t, out, "cannot read /etc/concourse-ci-machine/wrapper.json, which only root can read: permission denied; a rootless engine gets no GPU from this runtime")
}
