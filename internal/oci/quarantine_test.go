package oci

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

const hung = "has been quarantined since 2026-01-02 03:00:00 UTC: hangs or is in reset (kernel_log)"

// quarantining lets the testbed's two GPUs be quarantined, by the names a and b.
func quarantining(b *testbed) func(*Config) {
	return func(c *Config) {
		c.GPUs = []GPU{gpuA.called("a", "0"), gpuB.called("b", "GPU-3c4d")}
		c.Visible, c.Quarantine = []string{"AMD_VISIBLE_DEVICES"}, b.path("admission.json")
	}
}

func (b *testbed) quarantine(t *testing.T, names ...string) {
	t.Helper()
	var gpus []admission.GPU
	for _, n := range names {
		gpus = append(gpus, admission.GPU{Name: n, Reason: hung})
	}
	b.put(t, "admission.json", string(admission.Encode(admission.File{GPUs: gpus})))
}

const elsewhere = "; " + lease.RunAgain + " [container c1]"

func TestQuarantinedGPUIsInNoSharedContainer(t *testing.T) {
	b := newTestbed(t)
	b.configure(t, quarantining(b))
	b.bundle(t, "task")
	require.NoError(t, b.create())
	require.Len(t, b.given(t), 2, "no file: none is quarantined")

	b.quarantine(t, "a", "a GPU of nobody")
	for _, set := range [][]any{nil, {"GPU_COUNT=1"}, {"GPU_COUNT=all"}, {"AMD_VISIBLE_DEVICES=all"},
		{"AMD_VISIBLE_DEVICES=0,1", "GPU_COUNT=1"}, {"AMD_VISIBLE_DEVICES=1"}} {
		b.bundle(t, "task", env(set...))
		require.NoError(t, b.create(), set)
		require.Equal(t, []string{"/dev/dri/renderD129"}, b.given(t), set)
	}
	for set, want := range map[string]string{
		"AMD_VISIBLE_DEVICES=0": "cannot give the task 1 GPU: 0 of the 1 that the task names can be " +
			"given; GPU 0 (GPU-1a2b, 0000:03:00.0) " + hung + elsewhere,
		"AMD_VISIBLE_DEVICES=0-1": "cannot give the task 2 GPUs: 1 of the 2 that the task names can be " +
			"given; GPU 0 (GPU-1a2b, 0000:03:00.0) " + hung + elsewhere,
		"GPU_COUNT=2": "cannot give the task 2 GPUs: 1 of the 2 that this machine gives can be " +
			"given; GPU 0 (GPU-1a2b, 0000:03:00.0) " + hung + elsewhere,
		"GPU_COUNT=3": "cannot give the task 3 GPUs: this machine gives 2; request fewer with " +
			"GPU_COUNT [container c1]",
	} {
		b.bundle(t, "task", env(set))
		require.EqualError(t, b.create(), want)
		require.Nil(t, b.argv)
	}
	b.bundle(t, "task", env("GPU_COUNT=0"))
	require.NoError(t, b.create())
	b.bundle(t, "check")
	require.NoError(t, b.create(), "no task")

	b.quarantine(t, "a", "b")
	b.bundle(t, "task")
	require.EqualError(t, b.create(), "cannot give the task 1 GPU: 0 of the 2 that this machine gives can "+
		"be given; GPU 0 (GPU-1a2b, 0000:03:00.0) "+
		hung+", GPU 1 (GPU-3c4d, 0000:c4:00.0) "+hung+elsewhere)
}

func TestQuarantinedGPUIsNotLeased(t *testing.T) {
	b := handedOver(t, admission.File{})
	b.sleep = func(time.Duration) {}
	b.quarantine(t, "GPU-3c4d") // the lowest by links and index
	for set, want := range map[string]string{
		"AMD_VISIBLE_DEVICES=1": "cannot lease 1 GPU: 0 of the 1 that the task names can be given; GPU 1 " +
			"(GPU-3c4d, 0000:c4:00.0) " + hung + elsewhere,
		"GPU_COUNT=2": "cannot lease 2 GPUs: 1 of this machine's 2 can be given; GPU 1 (GPU-3c4d, " +
			"0000:c4:00.0) " + hung + elsewhere,
		"GPU_COUNT=3": "cannot lease 3 GPUs: this machine has 2; request fewer with GPU_COUNT [container c1]",
	} {
		require.EqualError(t, b.task(t, "c1", set), want)
	}
	require.NoError(t, b.task(t, "c1", "GPU_COUNT=all"), "all that can be given")
	require.Equal(t, []string{"/dev/dri/renderD128"}, b.given(t))
	require.Equal(t, []string{"c1", ""}, b.held(t))
	require.EqualError(t, b.task(t, "c2"), "cannot lease 1 GPU: 0 of 2 are free; 0 (GPU-1a2b, 0000:03:00.0) is "+
		"held by the task of container c1 since 03:04:05 UTC (0s); "+
		"GPU 1 (GPU-3c4d, 0000:c4:00.0) "+hung+"; "+lease.RunAgain+" [container c2]")

	b.quarantine(t, "GPU-1a2b", "GPU-3c4d")
	require.EqualError(t, b.task(t, "c1"), "cannot lease 1 GPU: 0 of this machine's 2 can be given; GPU 1 "+
		"(GPU-3c4d, 0000:c4:00.0) "+hung+", GPU 0 (GPU-1a2b, 0000:03:00.0) "+hung+elsewhere)
	process := b.path("process.json")
	b.put(t, "process.json", `{"user":{"uid":0,"gid":0},"args":["sh"],"env":["A=b"],"cwd":"/"}`)
	require.NoError(t, b.call("exec", "--process", process, "c2-without-a-lease"), "an exec asks nobody")
}

// Concourse sends a task for each GPU that the unit had. A task without one waits, and
// Concourse runs it again.
func TestTaskWaitsForAMissingGPU(t *testing.T) {
	const busy = "cannot lease 1 GPU: 0 of 1 are free; 0 (GPU-1a2b, 0000:03:00.0) is held by the task of container c1 " +
		"since 03:04:05 UTC (0s); "
	described := func(c *Config) { // the unit has described its GPUs again
		c.GPUs = c.GPUs[1:]
		c.Leases.Missing = []string{"0000:c4:00.0"}
	}
	for name, c := range map[string]struct {
		change []func(*Config)
		busy   string
		two    string
	}{
		"before the unit knows": {nil, "cannot lease 1 GPU: 0 of 2 are free; 0 (GPU-1a2b, 0000:03:00.0) is held by the " +
			"task of container c1 since 03:04:05 UTC (0s); GPU 1 (GPU-3c4d, 0000:c4:00.0) is missing: no /dev/dri/renderD129",
			"cannot lease 2 GPUs: 1 of this machine's 2 can be given; GPU 1 (GPU-3c4d, 0000:c4:00.0) is missing: no /dev/dri/renderD129"},
		"afterwards": {[]func(*Config){described}, busy + "GPU 0000:c4:00.0 is missing",
			"cannot lease 2 GPUs: 1 of this machine's 2 can be given; GPU 0000:c4:00.0 is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			b := exclusive(t, c.change...)
			delete(b.nodes, "/dev/dri/renderD129")
			waited := time.Duration(0)
			b.sleep = func(d time.Duration) { waited += d }
			require.NoError(t, b.task(t, "c1"))
			require.Equal(t, []string{"/dev/dri/renderD128"}, b.given(t))
			require.EqualError(t, b.task(t, "c2"), c.busy+"; "+lease.RunAgain+" [container c2]")
			require.Equal(t, quarantineTime, waited)
			require.EqualError(t, b.task(t, "c3", "GPU_COUNT=2"), c.two+"; "+lease.RunAgain+" [container c3]")
			require.EqualError(t, b.task(t, "c4", "GPU_COUNT=3"),
				"cannot lease 3 GPUs: this machine has "+map[bool]string{true: "2", false: "1"}[c.change == nil]+
					"; request fewer with GPU_COUNT [container c4]")
		})
	}
}

func TestSharedTaskGetsTheGPUsWithNodes(t *testing.T) {
	b := newTestbed(t)
	b.configure(t, func(c *Config) { c.GPUs = []GPU{gpuA, gpuB} })
	delete(b.nodes, "/dev/dri/renderD129")
	b.bundle(t, "task")
	require.NoError(t, b.create())
	require.Equal(t, []string{"/dev/dri/renderD128"}, b.given(t))
	delete(b.nodes, "/dev/kfd")
	b.bundle(t, "task")
	require.ErrorContains(t, b.create(), "or restore the GPU; "+lease.RunAgain)
}

// What guards builds against a sick GPU must not stop all of them.
func TestUnusableListQuarantinesNoGPU(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, b *testbed){
		"damaged":   func(t *testing.T, b *testbed) { b.put(t, "admission.json", `{"gpus":[{"name":"a",`) },
		"no list":   func(t *testing.T, b *testbed) { b.put(t, "admission.json", `[]`) },
		"another's": func(t *testing.T, b *testbed) { b.euid++ },
		"others write it": func(t *testing.T,
			b *testbed) {
			require.NoError(t, os.Chmod(b.path("admission.json"), 0o666))
		},
		"a folder": func(t *testing.T, b *testbed) {
			require.NoError(t, os.Remove(b.path("admission.json")))
			b.put(t, "admission.json/x", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t)
			b.configure(t, quarantining(b))
			b.quarantine(t, "a")
			s, err := b.readConfig()
			require.NoError(t, err)
			require.Len(t, b.readAdmission(s).Excluded, 1)
			if name == "another's" && os.Geteuid() == 0 {
				require.NoError(t, os.Chown(b.path("admission.json"), 4711, 4711))
			}
			spoil(t, b)
			if name == "another's" && os.Geteuid() != 0 {
				require.NotEmpty(t, b.dir) // the file is this user's, and the wrapper now another's
			}
			require.Empty(t, b.readAdmission(s).Excluded)
		})
	}
}

func TestTaskThatRequestsAMissingGPUIsRefused(t *testing.T) {
	b := newTestbed(t)
	b.configure(t, func(c *Config) {
		c.GPUs, c.Specs, c.Visible, c.Missing = nil, nil, []string{"AMD_VISIBLE_DEVICES"}, "this unit has none now"
	})
	for _, set := range []string{"GPU_COUNT=1", "GPU_COUNT=all", "AMD_VISIBLE_DEVICES=0", "GPU_COUNT=two"} {
		b.bundle(t, "task", env(set))
		require.EqualError(t, b.create(),
			"cannot give the task the GPU that it requests: this unit has none now [container c1]", set)
		require.Nil(t, b.argv)
	}
	for _, set := range []string{"A=b", "GPU_COUNT=0", "GPU_COUNT=", "AMD_VISIBLE_DEVICES=none",
		"AMD_VISIBLE_DEVICES=all"} {
		b.bundle(t, "task", env(set))
		before := b.text(t)
		require.NoError(t, b.create(), set)
		require.Equal(t, before, b.text(t))
	}
	b.bundle(t, "check", env("GPU_COUNT=1"))
	require.NoError(t, b.create(), "no task")
}

func TestQuarantineInTheConfigIsChecked(t *testing.T) {
	for in, want := range map[string]string{
		`{"quarantine":"x"}`: `quarantine: "x" is not an absolute path`,
		`{"quarantine":{}}`:  `"quarantine": it is an object, not a string`,
		`{"missing":1}`:      `"missing": it is a number, not a string`,
	} {
		_, err := decodeConfig([]byte(in))
		require.ErrorContains(t, err, want, in)
	}
}
