package oci

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// handedOver is a testbed with two GPUs that are leased under the names GPU-3c4d, which a
// task gets first, and GPU-1a2b, with a file of what more holds.
func handedOver(t *testing.T, f admission.File) *testbed {
	t.Helper()
	b := exclusive(t)
	b.configure(t, func(c *Config) {
		c.GPUs, c.Visible = []GPU{gpuB, gpuA}, []string{"AMD_VISIBLE_DEVICES"}
		c.Leases, c.Quarantine = &Leases{Dir: b.path("leases")}, b.path("admission.json")
	})
	f.GPUs = slices.Clone(f.GPUs)
	for i, g := range f.GPUs {
		if len(g.Files) > 0 {
			f.GPUs[i].Files = []string{b.path(g.Files[0])}
		}
	}
	b.put(t, "admission.json", string(admission.Encode(f)))
	b.sleep = func(time.Duration) { t.Fatal("a task waits though a GPU is there for it") }
	return b
}

const first, second = "/dev/dri/renderD129", "/dev/dri/renderD128"

// likeOf is the hash of the bundle as it is now.
func (b *testbed) likeOf(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(b.path("bundle/config.json"))
	require.NoError(t, err)
	doc, err := rawjson.Parse(data)
	require.NoError(t, err)
	return stepHash(doc.Root())
}

func TestRerunAfterAFaultGetsAnotherGPU(t *testing.T) {
	b := handedOver(t, admission.File{})
	b.bundle(t, "task", env("SECRET=one", "A=b"))
	known := b.likeOf(t)
	b.bundle(t, "task", env("SECRET=two", "A=c"))
	require.Equal(t, known, b.likeOf(t), "values do not count: they can be secrets, and change")
	b.bundle(t, "task", env("SECRET=one"))
	require.NotEqual(t, known, b.likeOf(t))

	b = handedOver(t, admission.File{GPUs: []admission.GPU{{Name: "GPU-3c4d", Avoid: []string{known}},
		{Name: "nobody's", Avoid: []string{known}}}})
	b.bundle(t, "task", env("SECRET=three", "A=b"))
	require.NoError(t, b.call("create", "--bundle", b.path("bundle"), "--pid-file", b.path("init.pid"), "c1"))
	require.Equal(t, []string{second}, b.given(t), "not that which failed it")
	b.bundle(t, "task", env("SECRET=three", "A=b"))
	require.NoError(t, b.call("create", "--bundle", b.path("bundle"), "--pid-file", b.path("init.pid"), "c2"))
	require.Equal(t, []string{first}, b.given(t), "where no other is free, that")

	b = handedOver(t, admission.File{GPUs: []admission.GPU{{Name: "GPU-3c4d", Avoid: []string{known}}}})
	require.NoError(t, b.task(t, "c3", "OTHER=1"))
	require.Equal(t, []string{first}, b.given(t), "other tasks get it")
}

func TestGPUWithUsedMemoryIsNotLeased(t *testing.T) {
	memory := []admission.GPU{{Name: "GPU-3c4d", Files: []string{"used0"}, Most: 1000 << 20},
		{Name: "GPU-1a2b", Files: []string{"used1"}, Most: 1000 << 20}, {Name: "GPU-1a2b", Files: []string{"none"}, Most: 0}}
	for name, c := range map[string]struct {
		used0, used1 string
		free         int // the pause after which GPU-3c4d is empty, 0: never
		want         string
		refused      string
	}{
		"both are empty":               {used0: "1048576000\n", used1: "0\n", want: first},
		"one is not: the other":        {used0: "1048576001\n", used1: "0\n", want: second},
		"what can't be told is no bar": {used0: "much\n", used1: "0\n", want: first},
		"neither, and one is soon":     {used0: "8589934592\n", used1: "9000000000\n", free: 3, want: first},
		"neither": {used0: "8589934592\n", used1: "1073741824000\n", refused: "cannot lease 1 GPU: GPU 1 " +
			"(GPU-3c4d, 0000:c4:00.0) has 8.0 GiB of its memory in use, though its last task has ended, " +
			"GPU 0 (GPU-1a2b, 0000:03:00.0) has 1000.0 GiB of its memory in use, though its last task has " +
			"ended; " + lease.RunAgain + " [container c1]"},
	} {
		t.Run(name, func(t *testing.T) {
			b := handedOver(t, admission.File{GPUs: memory})
			b.put(t, "used0", c.used0)
			b.put(t, "used1", c.used1)
			pauses := 0
			if c.free > 0 || c.refused != "" {
				b.sleep = func(d time.Duration) {
					require.Equal(t, waitPause, d)
					if pauses++; pauses == c.free {
						b.put(t, "used0", "0\n")
					}
				}
			}
			err := b.task(t, "c1")
			if c.refused != "" {
				require.EqualError(t, err, c.refused)
				require.Equal(t, int(unreadyTime/waitPause), pauses)
				require.Equal(t, []string{"", ""}, b.held(t), "what was refused holds nothing")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.free, pauses)
			require.Equal(t, []string{c.want}, b.given(t))
		})
	}
}

// The record of a lease reports what its task looks like, also after an exec.
func TestLeaseHasTheStepHashOfItsTask(t *testing.T) {
	b := handedOver(t, admission.File{})
	require.NoError(t, b.task(t, "c1"))
	data, err := os.ReadFile(b.path("leases/GPU-3c4d"))
	require.NoError(t, err)
	var record struct{ Like string }
	require.NoError(t, json.Unmarshal(data, &record))
	require.Regexp(t, "^[0-9a-f]{12,16}$", record.Like)
}

// Tasks get the GPU with the most free memory, and the one that others use only if no other is free.
func TestGPUThatOthersUseIsLeasedLast(t *testing.T) {
	b := handedOver(t, admission.File{GPUs: []admission.GPU{{Name: "GPU-3c4d", Taken: 90}, {Name: "GPU of nobody", Taken: 1}}})
	require.NoError(t, b.task(t, "c1"))
	require.Equal(t, []string{second}, b.given(t))
	require.NoError(t, b.task(t, "c2"))
	require.Equal(t, []string{first}, b.given(t))
}
