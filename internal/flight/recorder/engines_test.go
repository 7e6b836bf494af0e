package recorder_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

var aContainer = strings.Repeat("4f1c", 16)

// engineContainer starts a container of another engine on GPU 1, as its runtime does.
func (w *world) engineContainer(bundle, group string, pid int) {
	w.t.Helper()
	w.process(pid)
	w.put(fmt.Sprintf("/proc/%d/cgroup", pid), "0::"+group+"\n")
	dir := "/sys/fs/cgroup" + strings.TrimSuffix(group, "/container")
	w.put(dir+"/cgroup.procs", "") // Podman's has none
	w.put(dir+"/cpu.stat", "usage_usec 1000000\n")
	w.put(dir+"/memory.max", fmt.Sprintf("%d\n", 4*gib))
	require.NoError(w.t, os.MkdirAll(w.root.Path("/run/concourse-ci-machine"), 0o755))
	c := lease.Call{Container: aContainer, Bundle: w.root.Path(bundle), PidFile: w.root.Path(bundle + "/init.pid"),
		Cgroup: aContainer, OwnProcess: true, PID: pid}
	_, err := w.leases().Try(c, lease.Want{Count: 1, Of: []int{1}})
	require.NoError(w.t, err)
	w.put(bundle+"/init.pid", fmt.Sprint(pid))
}

func TestContainersOfOtherEnginesHaveRecords(t *testing.T) {
	const docker = "/run/containerd/io.containerd.runtime.v2.task/moby/"
	for name, c := range map[string]struct {
		bundle, group, file, content string
		kind                         verdict.Kind
		code                         string
		failed                       bool
	}{
		"Docker": {docker + aContainer, "/system.slice/docker-" + aContainer + ".scope",
			"/var/lib/docker/containers/" + aContainer + "/config.v2.json", `{"State":{"Running":false,"ExitCode":139}}`,
			verdict.Container, "crash", true},
		"Docker with --rm": {docker + aContainer, "/docker/" + aContainer, "", "", "", "", false},
		"Docker that is started again": {docker + aContainer, "/docker/" + aContainer,
			"/var/lib/docker/containers/" + aContainer + "/config.v2.json",
			`{"State":{"Running":true,"Restarting":true,"ExitCode":139}}`, verdict.Container, "crash", true},
		"Docker that is killed": {docker + aContainer, "/docker/" + aContainer,
			"/var/lib/docker/containers/" + aContainer + "/config.v2.json", `{"State":{"Running":true,"ExitCode":0}}`, "", "",
			false},
		"Podman": {"/var/lib/containers/storage/overlay-containers/" + aContainer + "/userdata",
			"/machine.slice/libpod-" + aContainer + ".scope/container", "/run/libpod/exits/" + aContainer, "2",
			verdict.Container, "exit-status", true},
		"Podman that succeeds": {"/var/lib/containers/storage/overlay-containers/" + aContainer + "/userdata",
			"/machine.slice/libpod-" + aContainer + ".scope/container", "/run/libpod/exits/" + aContainer, "0", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engineContainer(c.bundle, c.group, 7000)
			w.run(20 * time.Second)
			w.kill(7000)
			if c.file != "" {
				w.put(c.file, c.content)
			}
			w.run(50 * time.Second)
			one, v := w.verdict(aContainer[:12])
			require.Equal(t, lease.Container, one.Head.Kind)
			require.EqualValues(t, 4*gib, one.Head.Memory)
			require.Equal(t, gpu1, one.Head.GPUs[0].Name)
			require.NotEmpty(t, one.GPUs[gpu1])
			require.EqualValues(t, 1, one.Machine[1].Value(taskrecord.Processes))
			require.Equal(t, start, one.Head.Started)
			require.Equal(t, c.failed, one.Failed())
			require.Equal(t, c.kind, v.Kind)
			if c.code != "" {
				require.Equal(t, c.code, v.Reasons[0].Code)
			}
		})
	}
}

// Docker keeps the id of a container that is started again. Its last run is recorded.
func TestContainerThatIsStartedAgainHasANewRecord(t *testing.T) {
	const bundle, group = "/run/containerd/io.containerd.runtime.v2.task/moby/x", "/docker/"
	w := newWorld(t)
	for n, exit := range []string{"1", "0"} {
		w.engineContainer(bundle, group+aContainer, 7000+n)
		w.run(20 * time.Second)
		w.kill(7000 + n)
		w.put("/var/lib/docker/containers/"+aContainer+"/config.v2.json", `{"State":{"ExitCode":`+exit+`}}`)
		w.run(50 * time.Second)
		one, _ := w.verdict(aContainer)
		require.Equal(t, exit != "0", one.Failed())
	}
	all, err := taskrecord.Store{Dir: w.root.Path(taskrecord.DefaultDir)}.List()
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// Without leases, containers share the GPUs.
func TestContainersWithAnOpenGPUHaveRecords(t *testing.T) {
	const docker = "/var/lib/docker/containers/"
	for name, c := range map[string]struct {
		group, file, exit string
		recorded          bool
		engine            string
	}{
		"Docker": {"/system.slice/docker-" + aContainer + ".scope", docker + aContainer + "/config.v2.json",
			`{"State":{"ExitCode":3}}`, true, "docker"},
		"Docker with another parent": {"/jobs/" + aContainer, docker + aContainer + "/config.v2.json",
			`{"State":{"ExitCode":3}}`, true, "docker"},
		"Podman": {"/machine.slice/libpod-" + aContainer + ".scope/container", "/run/libpod/exits/" + aContainer, "3", true,
			"podman"},
		"a pod":               {"/kubepods.slice/cri-containerd-" + aContainer + ".scope", "", "", false, ""},
		"a container of LXC":  {"/lxc.payload.ci/system.slice", "", "", false, ""},
		"a process of no one": {"/user.slice/session-1.scope", "", "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.process(7000)
			w.now = w.now.Add(10 * time.Second)
			w.process(7005) // it has the GPU open
			for _, pid := range []int{7000, 7005} {
				w.put(fmt.Sprintf("/proc/%d/cgroup", pid), "0::"+c.group+"\n")
			}
			w.put("/sys/fs/cgroup"+c.group+"/cgroup.procs", "7005\n7000\n")
			w.put("/sys/fs/cgroup"+c.group+"/cpu.stat", "usage_usec 1000000\n")
			if c.file != "" {
				w.put(c.file, c.exit)
			}
			scan := func() {
				r := usage.Result{At: w.now, Devices: []usage.Used{{Slot: gpu.Slot{PCI: gpu1},
					Processes: []usage.Process{{PID: 7005, Container: aContainer[:12], Memory: gib}}}}}
				require.NoError(t, usage.File(usageReport).Write(w.root, r))
			}
			scan()
			w.run(15 * time.Second)
			w.kill(7005)
			scan()
			w.run(15 * time.Second)
			w.say("amdgpu " + gpu1 + ": amdgpu: GPU reset(2) succeeded!")
			w.run(2 * time.Second)
			w.kill(7000)
			w.run(50 * time.Second)
			store := taskrecord.Store{Dir: w.root.Path(taskrecord.DefaultDir)}
			require.Equal(t, c.recorded, store.Ended(aContainer))
			if !c.recorded {
				return
			}
			one, v := w.verdict(aContainer)
			require.Equal(t, lease.Container, one.Head.Kind)
			require.Equal(t, c.engine, one.Head.Engine)
			require.Equal(t, gpu1, one.Head.GPUs[0].Name)
			require.Equal(t, start.Add(43*time.Second), one.End.Ended.Truncate(time.Second))
			require.Equal(t, 3, *one.End.Exit)
			require.Equal(t, verdict.GPU, v.Kind)
		})
	}
}
