package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// exclusive is a testbed with two GPUs that are leased. Its calls are all of this process,
// which lives: what one container leased, no other gets.
func exclusive(t *testing.T, change ...func(*Config)) *testbed {
	t.Helper()
	b := newTestbed(t)
	b.configure(t, func(c *Config) {
		c.GPUs, c.Visible, c.Leases = []GPU{gpuB, gpuA}, []string{"AMD_VISIBLE_DEVICES"}, &Leases{Dir: b.path("leases")}
		for _, f := range change {
			f(c)
		}
	})
	return b
}

// task creates a container that is a task with this environment.
func (b *testbed) task(t *testing.T, id string, env ...any) error {
	t.Helper()
	b.bundle(t, "task", func(spec map[string]any) {
		spec["process"].(map[string]any)["env"] = append([]any{"HOME=/root"}, env...)
	})
	return b.call("create", "--bundle", b.path("bundle"), "--pid-file", b.path("init.pid"), id)
}

func (b *testbed) held(t *testing.T) (containers []string) {
	t.Helper()
	l := lease.Leases{Dir: b.path("leases"), GPUs: []string{"GPU-1a2b", "GPU-3c4d"}, Euid: uint32(os.Geteuid())}
	states, _, err := l.Read()
	require.NoError(t, err)
	for _, s := range states {
		container := ""
		if s.Held {
			container = s.Container
		}
		containers = append(containers, container)
	}
	return containers
}

// given are the GPU nodes that the edited config.json has, and rules for.
func (b *testbed) given(t *testing.T) (nodes []string) {
	t.Helper()
	r := b.result(t)
	for _, m := range r.Mounts {
		if strings.HasPrefix(m.Destination, "/dev/dri/render") {
			nodes = append(nodes, m.Destination)
		}
	}
	var minors []uint32
	for _, d := range r.Linux.Resources.Devices {
		if d.Major == 226 {
			minors = append(minors, d.Minor)
		}
	}
	require.Len(t, minors, 2*len(nodes), "a rule for card and render node of each, and no other")
	return nodes
}

func TestTaskGetsTheGPUsThatItLeased(t *testing.T) {
	b := exclusive(t)
	require.NoError(t, b.task(t, "c1", "AMD_VISIBLE_DEVICES=0"))
	require.Equal(t, []string{"/dev/dri/renderD128"}, b.given(t))
	require.Equal(t, []string{"c1", ""}, b.held(t))
	require.NoError(t, b.task(t, "c2"))
	require.Equal(t, []string{"/dev/dri/renderD129"}, b.given(t))
	require.Equal(t, []string{"c1", "c2"}, b.held(t))

	require.EqualError(t, b.task(t, "c3"), "cannot lease 1 GPU: 0 of 2 are free; "+
		"1 (GPU-3c4d, 0000:c4:00.0) is held by the task of container c2 since 03:04:05 UTC (0s), 0 (GPU-1a2b, "+
		"0000:03:00.0) is held by the task of container c1 since 03:04:05 UTC (0s); "+
		"run the task again later [container c3]", "named as "+
		"tasks name them, whatever the order of gpus")
	require.NotContains(t, b.text(t), "/dev/dri")
	require.NoFileExists(t, b.path("state/c3"))
	require.NoError(t, b.task(t, "c4", "GPU_COUNT=0"), "who wants none need not wait")
	require.NotContains(t, b.text(t), "/dev/kfd")
}

func TestTaskOfSeveralGPUsGetsThemAll(t *testing.T) {
	b := exclusive(t)
	require.NoError(t, b.task(t, "c1", "GPU_COUNT=all"))
	require.ElementsMatch(t, []string{"/dev/dri/renderD128", "/dev/dri/renderD129"}, b.given(t))
	require.Equal(t, []string{"c1", "c1"}, b.held(t))
	require.ErrorContains(t, b.task(t, "c2", "GPU_COUNT=3"), "cannot lease 3 GPUs: this machine has 2")
}

func TestContainersWithoutGPULeaseNone(t *testing.T) {
	b := exclusive(t)
	b.bundle(t, "check")
	require.NoError(t, b.create())
	require.NoError(t, b.task(t, "c1", "AMD_VISIBLE_DEVICES=none"))
	require.NoDirExists(t, b.path("leases"))
	require.NoDirExists(t, b.path("state"))
}

// With Containers=all a check is as good as a task.
func TestAllContainersLeaseIfAllGetGPUs(t *testing.T) {
	b := exclusive(t, func(c *Config) { c.Containers = All })
	b.bundle(t, "check")
	require.NoError(t, b.call("create", "--bundle", b.path("bundle"), "--pid-file", b.path("init.pid"), "k1"))
	require.Contains(t, strings.Join(b.held(t), " "), "k1")
	require.Len(t, b.given(t), 1)
}

// Whatever goes wrong after the lease: the GPU is free at once, and the caller's
// files are as they were.
func TestLeaseEndsWhenTheCreateFails(t *testing.T) {
	for want, breaks := range map[string]func(t *testing.T, b *testbed){
		"/dev/kfd is missing":      func(_ *testing.T, b *testbed) { delete(b.nodes, "/dev/kfd") },
		"is stale":                 func(_ *testing.T, b *testbed) { b.node("/dev/kfd", 0o660, 992, 7) },
		"cannot use " /* state */ : func(t *testing.T, b *testbed) { b.put(t, "state", "a file") },
		"cannot run the real runc": func(_ *testing.T, b *testbed) {
			b.machine.exec = func(string, []string, []string) error { return errors.New("no") }
		},
		"cannot give the container the": func(t *testing.T, b *testbed) { b.folder(t) },
	} {
		b := exclusive(t)
		breaks(t, b)
		require.ErrorContains(t, b.task(t, "c1", "GPU_COUNT=2"), want)
		require.Equal(t, []string{"", ""}, b.held(t), want)
	}
}

// folder names a folder that is not there.
func (b *testbed) folder(t *testing.T) {
	var c Config
	data, err := os.ReadFile(b.path("wrapper.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &c))
	c.Folders = &Folders{Root: b.path("srv"), Names: []string{"gone"}}
	data, err = json.Marshal(c)
	require.NoError(t, err)
	b.put(t, "wrapper.json", string(data))
}

func TestMarkerOfALeaseNamesItsGPUs(t *testing.T) {
	b := exclusive(t)
	require.NoError(t, b.task(t, "c1", "AMD_VISIBLE_DEVICES=0"))
	k, err := b.wrapper.markers(b.path("state")).load("c1")
	require.NoError(t, err)
	require.Equal(t, marker{bundle: b.path("bundle"),
		lease: heldLease{gpus: []string{"GPU-1a2b"}, pidFile: b.path("init.pid"), cgroup: "task-1"}}, k)
}

// How one is let in needs a container: tests/container.
func TestExecEntersTheLeaseOfItsContainer(t *testing.T) {
	b := exclusive(t)
	b.put(t, "process", process)
	require.NoError(t, b.task(t, "c1", "AMD_VISIBLE_DEVICES=0"))
	exec := []string{"exec", "--process", b.path("process"), "--detach", "c1"}
	require.ErrorContains(t, b.call(exec...),
		"cannot enter container c1, which has separate GPUs: its first process has ended")
	require.NoError(t, b.call("exec", "other", "sh"), "of a container without a lease")

	_, err := lease.Leases{Dir: b.path("leases"), GPUs: []string{"GPU-1a2b"}, Euid: b.euid}.Release(0, true)
	require.NoError(t, err)
	require.NoError(t, b.task(t, "c2", "AMD_VISIBLE_DEVICES=0"))
	for _, call := range [][]string{exec, {"exec", "c1", "sh"}, {"exec", "-t", "c1", "sh", "-p"}} {
		err := b.call(call...)
		require.ErrorContains(t, err, "since then GPU-1a2b is held by the task of container c2 since ")
		require.ErrorContains(t, err, "[container c1]")
		require.Nil(t, b.argv)
	}

	b.configure(t, func(c *Config) { c.GPUs = nil; c.Leases = &Leases{Dir: b.path("leases")} })
	require.ErrorContains(t, b.call(exec...), "held by the task of container c2", "whatever GPUs the unit gives now")
	b.configure(t, func(*Config) {})
	require.NoError(t, b.call(exec...), "GPUs are shared now")
}

func TestFirstProcessMustBeConcourses(t *testing.T) {
	b := exclusive(t)
	b.bundle(t, "task", func(spec map[string]any) { spec["process"].(map[string]any)["args"] = []any{"sh"} })
	require.ErrorContains(t, b.call("create", "-b", b.path("bundle"), "--pid-file", "/p", "c1"),
		"cannot lease GPUs to a container with another first process than Concourse's /tmp/gdn-init: ")
	require.NoDirExists(t, b.path("leases"))
}

// Otherwise a process of an ended task could hold a GPU that is free to others.
func TestContainerMustEndWithItsFirstProcess(t *testing.T) {
	for _, namespaces := range [][]any{{}, {map[string]any{"type": "mount"}},
		{map[string]any{"type": "pid", "path": "/proc/1/ns/pid"}}} {
		b := exclusive(t)
		b.bundle(t, "task", func(spec map[string]any) { spec["linux"].(map[string]any)["namespaces"] = namespaces })
		require.ErrorContains(t, b.call("create", "-b", b.path("bundle"), "--pid-file", "/p", "c1"),
			"cannot lease GPUs to a container without a new pid namespace: ")
		require.NoDirExists(t, b.path("leases"))
	}
}

func TestCgroupNameIsTheLastPartOfItsPath(t *testing.T) {
	for path, want := range map[string]string{
		"garden/1f": "1f", "/garden/1f": "1f", "/garden/1f/": "1f", "1f": "1f", "": "c1",
		"system.slice:runc:1f": "1f", "/garden/a.b_c-d": "a.b_c-d",
	} {
		b := exclusive(t)
		b.bundle(t, "task", func(spec map[string]any) { spec["linux"].(map[string]any)["cgroupsPath"] = path })
		require.NoError(t, b.call("create", "-b", b.path("bundle"), "--pid-file", "/p", "c1"))
		k, err := b.wrapper.markers(b.path("state")).load("c1")
		require.NoError(t, err)
		require.Equal(t, want, k.lease.cgroup, path)
	}
}

// If GPUs are shared, nothing of this is looked at: D37's rule for all calls.
func TestSharedGPUsAreNotLeasedByTheWrapper(t *testing.T) {
	b := newTestbed(t)
	for i := range 3 {
		require.NoError(t, b.task(t, "c"+strconv.Itoa(i), "GPU_COUNT=1"))
		require.Equal(t, []string{"/dev/dri/renderD128"}, b.given(t))
	}
	require.NoDirExists(t, b.path("state"))
	files, err := filepath.Glob(b.path("*"))
	require.NoError(t, err)
	require.Len(t, files, 5, "runc, amd.json, wrapper.json, bundle and nodes: %v", files)
}

func TestRefusalOfATaskIsInItsLog(t *testing.T) {
	b := exclusive(t)
	require.NoError(t, b.task(t, "c1", "GPU_COUNT=2"))
	b.bundle(t, "task")
	var stdout, stderr bytes.Buffer
	code := b.run([]string{"runc", "--root", "/run/containerd/runc/concourse", "--log", b.path("log"),
		"--log-format", "json", "create", "-b", b.path("bundle"), "--pid-file", b.path("pid"), "c2"}, &stdout, &stderr)
	require.Equal(t, 1, code)
	var line struct{ Level, Msg string }
	require.NoError(t, json.Unmarshal([]byte(file(t, b.path("log"))), &line))
	require.Equal(t, line.Msg+"\n", stderr.String())
	require.Contains(t, line.Msg, "are held by the task of container c1 since ")
}

// A create that waits looks 180 times, and is refused once; one that gets its GPU in the
// end is not refused at all.
func TestEachRefusedContainerIsCountedOnce(t *testing.T) {
	sick := admission.File{GPUs: []admission.GPU{{Name: "GPU-3c4d", Reason: hung}}}
	full := admission.File{GPUs: []admission.GPU{{Name: "GPU-1a2b", Files: []string{"used"}, Most: 1},
		{Name: "GPU-3c4d", Files: []string{"used"}, Most: 1}}}
	for name, c := range map[string]struct {
		file   admission.File
		env    []any
		held   bool // another task has GPU-1a2b
		pauses int  // after which nothing is in the way any more; 0: never
		want   lease.Counters
	}{
		"held and quarantined":          {sick, nil, true, 0, lease.Counters{Granted: 1, Busy: 1}},
		"quarantined":                   {sick, []any{"GPU_COUNT=2"}, false, 0, lease.Counters{Busy: 1}},
		"quarantined, and back in time": {sick, []any{"GPU_COUNT=2"}, false, 3, lease.Counters{Granted: 1}},
		"memory in use":                 {full, nil, false, 0, lease.Counters{Busy: 1}},
		"more than there are":           {sick, []any{"GPU_COUNT=3"}, false, 0, lease.Counters{Impossible: 1}},
		"held": {admission.File{}, []any{"GPU_COUNT=2"}, true, 0,
			lease.Counters{Granted: 1, Busy: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := handedOver(t, c.file)
			b.put(t, "used", "8589934592\n")
			if c.held {
				require.NoError(t, b.task(t, "c0"))
			}
			pauses := 0
			b.sleep = func(time.Duration) {
				if pauses++; pauses == c.pauses {
					b.put(t, "admission.json", string(admission.Encode(admission.File{})))
				}
			}
			err := b.task(t, "c1", c.env...)
			require.Equal(t, c.pauses > 0, err == nil, "%v", err)
			_, n, err := lease.Leases{Dir: b.path("leases"), GPUs: []string{"GPU-3c4d", "GPU-1a2b"},
				Euid: b.euid}.Read()
			require.NoError(t, err)
			require.Equal(t, c.want, n)
		})
	}
}
