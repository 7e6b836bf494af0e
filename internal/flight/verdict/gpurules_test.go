package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// hot returns a task with a GPU that was under a thermal limit in its last seconds.
func hot(lasted, seconds, permille float64) task {
	return task{seconds: lasted, exit: 143, gpu: func(second float64, v values) {
		if second > lasted-seconds {
			v.set(taskrecord.Thermal, permille)
		}
	}}
}

func TestLimitsOfRulesOnGPUs(t *testing.T) {
	checkLimits(t, []limit{
		{"gpu-lost", "seconds without an answer", func(v float64) task {
			return task{gpu: func(second float64, g values) {
				if second > 60-v {
					g.set(taskrecord.Alive, 0)
				}
			}}
		}, 4, 5, none, cause},
		{"gpu-throttled", "share of the time", func(v float64) task { return hot(100, v*100, 1000) }, .19, .2, none, cause},
		{"gpu-throttled", "status of a task that was not stopped", func(v float64) task {
			one := hot(100, 60, 1000)
			one.exit = int(v)
			return one
		}, 1, 143, sign, cause},
		{"gpu-throttled", "seconds", func(v float64) task { return hot(8, v, 1000) }, 4, 5, none, cause},
		{"gpu-throttled", "thousandths of a second", func(v float64) task { return hot(100, 60, v) }, 199, 200, none, cause},
		{"gpu-memory-error", "uncorrectable errors", func(v float64) task {
			return task{gpu: func(second float64, g values) { g.set(taskrecord.Uncorrectable, 7+float64(int(v*second/60))) }}
		}, 0, 1, none, cause},
		{"gpu-memory-error", "bad pages", func(v float64) task {
			return task{gpu: func(second float64, g values) { g.set(taskrecord.BadPages, 7+float64(int(v*second/60))) }}
		}, 0, 1, none, cause},
		{"gpu-hang", "signs of a hang in the readings", func(v float64) task {
			return task{gpu: func(_ float64, g values) { g.set(taskrecord.Hanging, v) }}
		}, 0, 1, none, cause},
		{"gpu-hang", "seconds to a minute after the end", func(v float64) task {
			return task{events: []taskrecord.Event{{At: at(121 - v), Kind: taskrecord.Dump, GPU: gpu0}}}
		}, 0, 1, none, cause},
	})
}

// The record has the begin of a hang. One that lasts to the end explains the failure.
func TestHangThatLastsToTheEndIsACause(t *testing.T) {
	for name, c := range map[string]struct {
		until float64
		want  string
	}{
		"to the end":              {600, cause},
		"for its first half":      {300, sign},
		"to three minutes before": {420, sign},
	} {
		one := task{seconds: 600, events: []taskrecord.Event{{At: at(30), Kind: taskrecord.GPUHang, GPU: gpu0}},
			gpu: func(second float64, g values) {
				if second >= 30 && second <= c.until {
					g.set(taskrecord.Hanging, 1)
				}
			}}
		require.Equal(t, c.want, strength(one, "gpu-hang"), name)
	}
}

// The kernel names a whole GPU, and tasks can have a partition.
func TestEventsOfAGPUAreOfItsPartitionsToo(t *testing.T) {
	for name, c := range map[string]struct {
		event, gpu string
		want       string
	}{
		"the same GPU":          {gpu0, gpu0, cause},
		"partition of the GPU":  {gpu0, gpu0 + "-1", cause},
		"another GPU":           {"0000:43:00.0", gpu0, none},
		"the whole of another":  {gpu0 + "-1", gpu0, none},
		"a longer address":      {gpu0, gpu0 + "0", none},
		"an event without GPUs": {"", gpu0, none},
	} {
		for kind, code := range map[taskrecord.EventKind]string{taskrecord.GPUHang: "gpu-hang", taskrecord.GPUReset: "gpu-hang",
			taskrecord.GPUError: "gpu-memory-error"} {
			one := task{head: func(h *taskrecord.Head) { h.GPUs[0].Name = c.gpu },
				events: []taskrecord.Event{{At: at(30), Kind: kind, GPU: c.event}}}
			require.Equal(t, c.want, strength(one, code), "%s, %s", name, kind)
		}
	}
}

func TestReasonNamesItsGPU(t *testing.T) {
	v := verdict.Decide(task{events: []taskrecord.Event{{At: at(30), Kind: taskrecord.GPUReset, GPU: gpu0}}}.record())
	require.Equal(t, gpu0, v.Reasons[0].GPU)
	require.Equal(t, "GPU "+gpu0+" hung or was reset at 12:00:30 UTC", v.Reasons[0].Text)
	require.Equal(t, 30., v.Reasons[0].Numbers["seconds_before_end"])
}

// gpu-evidence shows the same verdict: a step that hangs one GPU after the other does it itself.
func TestHangThatTheTaskCausedIsTheTasks(t *testing.T) {
	r := task{exit: 134, events: []taskrecord.Event{{At: at(59), Kind: taskrecord.GPUReset, GPU: gpu0}}}.record()
	hang := quarantine.Use{Ref: quarantine.Ref{Name: gpu0}, NewFaults: []health.Fault{{Kind: health.Hang}}}
	q := quarantine.Record{FaultyRuns: []quarantine.Run{{Container: r.Head.Handle, Began: began, GPUs: []quarantine.Use{hang},
		Verdict: quarantine.TaskCaused, Reason: "a task like it had a fault on GPU 1"}}}
	require.Equal(t, verdict.GPU, verdict.Decide(r).Kind)
	r.Events = append(r.Events, verdict.FaultsOf(r, q)...)
	v := verdict.Decide(r)
	require.Equal(t, verdict.Task, v.Kind)
	require.Contains(t, v.Reasons[0].Text, "; a task like it had a fault on GPU 1")
}
