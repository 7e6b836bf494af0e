package verdict_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

const (
	gpu0  = "0000:03:00.0"
	mebi  = 1 << 20
	gibi  = 1 << 30
	whole = 64 * gibi // video memory of the GPU
)

var began = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// values holds the counters of one reading.
type values []int64

func (v values) set(counter int, n float64) { v[counter] = int64(n) }

// task describes a task that worked all the time, and failed with status 1.
type task struct {
	seconds float64 // 60 if 0
	exit    int     // 1 if 0
	ending  taskrecord.Ending
	head    func(h *taskrecord.Head)
	machine func(second float64, v values) // changes a reading of each second
	gpu     func(second float64, v values)
	events  []taskrecord.Event
}

func (c task) record() *taskrecord.Record {
	if c.seconds == 0 {
		c.seconds = 60
	}
	if c.exit == 0 {
		c.exit = 1
	}
	r := &taskrecord.Record{
		Head: taskrecord.Head{Handle: "0badcafe-0000-4000-8000-000000000001", Started: began,
			GPUs: []taskrecord.GPU{{Name: gpu0}}},
		GPUs: map[string][]taskrecord.Sample{}, Events: c.events,
		End: &taskrecord.End{Ended: at(c.seconds), Ending: taskrecord.Exited, Exit: &c.exit},
	}
	if c.ending != "" {
		r.End.Ending, r.End.Exit = c.ending, nil
	}
	if c.head != nil {
		c.head(&r.Head)
	}
	for second := 0.; second <= c.seconds; second++ {
		s := taskrecord.NewSample(at(second), taskrecord.NumCounters)
		for i := range taskrecord.TCPOpen { // all sums of the container
			s.Values[i] = 0
		}
		values(s.Values).set(taskrecord.CPUUsage, second*1e6)
		if c.machine != nil {
			c.machine(second, s.Values)
		}
		r.Machine = append(r.Machine, s)
		g := taskrecord.NewSample(at(second), taskrecord.NumGPUCounters)
		for counter, v := range map[int]int64{taskrecord.Alive: 1, taskrecord.Tasks: 1, taskrecord.VideoUsed: 10 * mebi,
			taskrecord.VideoSize: whole, taskrecord.Busy: 900} {
			g.Values[counter] = v
		}
		if c.gpu != nil {
			c.gpu(second, g.Values)
		}
		r.GPUs[gpu0] = append(r.GPUs[gpu0], g)
	}
	return r
}

func at(second float64) time.Time { return began.Add(time.Duration(second * float64(time.Second))) }

// event returns an event at a second of the task.
func event(second float64, kind taskrecord.EventKind) taskrecord.Event {
	return taskrecord.Event{At: at(second), Kind: kind}
}

// Strengths of a reason.
const (
	none  = "none"
	sign  = "sign"
	cause = "cause"
)

// limit is a limit of a rule, tested on both sides.
type limit struct {
	code, name   string
	task         func(v float64) task
	below, above float64
	was, is      string // the reason below and above the limit
}

// checkLimits checks both sides of limits.
func checkLimits(t *testing.T, all []limit) {
	t.Helper()
	for _, l := range all {
		t.Run(l.code+", "+l.name, func(t *testing.T) {
			require.Equal(t, l.was, strength(l.task(l.below), l.code), "with %v", l.below)
			require.Equal(t, l.is, strength(l.task(l.above), l.code), "with %v", l.above)
		})
	}
}

func strength(c task, code string) string {
	for _, r := range verdict.Decide(c.record()).Reasons {
		switch {
		case r.Code == code && r.Cause:
			return cause
		case r.Code == code:
			return sign
		}
	}
	return none
}

func TestTaskThatSucceededOrRunsHasNoReasons(t *testing.T) {
	succeeded := task{events: []taskrecord.Event{event(30, taskrecord.GPUHang)}}.record()
	*succeeded.End.Exit = 0
	running := task{}.record()
	running.End = nil
	for _, r := range []*taskrecord.Record{succeeded, running} {
		v := verdict.Decide(r)
		require.Empty(t, v.Kind)
		require.Equal(t, []verdict.Reason{}, v.Reasons, "JSON has a list")
	}
}

// slowDisk is a task that waited for the disk for a share of its time.
func slowDisk(share float64) task {
	return task{machine: func(second float64, v values) { v.set(taskrecord.IOStallFull, second*share*1e6) }}
}

func TestCausesComeBeforeSignsAndSignsBeforeTheExitStatus(t *testing.T) {
	hang := taskrecord.Event{At: at(30), Kind: taskrecord.GPUReset, GPU: gpu0}
	slow, stopped, both := slowDisk(.9), slowDisk(.9), slowDisk(.9)
	stopped.exit = 143
	both.events = []taskrecord.Event{hang}
	for name, c := range map[string]struct {
		task  task
		kind  verdict.Kind
		codes []string
	}{
		"exit status alone":            {task{}, verdict.Task, []string{"exit-status"}},
		"sign before the exit status":  {slow, verdict.Unknown, []string{"io-stalled", "exit-status"}},
		"sign decides a stopped task":  {stopped, verdict.Machine, []string{"io-stalled", "stopped-busy"}},
		"cause before a sign":          {both, verdict.GPU, []string{"gpu-hang", "io-stalled", "exit-status"}},
		"nothing was seen":             {task{ending: taskrecord.Unseen}, verdict.Unknown, []string{"no-record"}},
		"the container was removed":    {task{ending: taskrecord.Removed}, verdict.Task, []string{"stopped-busy"}},
		"no process of the task began": {task{ending: taskrecord.NotStarted}, verdict.Task, []string{"not-started"}},
		"another boot has the recorder": {task{ending: taskrecord.Reboot}, verdict.Machine,
			[]string{"power-loss", "no-record"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := verdict.Decide(c.task.record())
			var codes []string
			for _, r := range v.Reasons {
				codes = append(codes, r.Code)
				require.NotEmpty(t, r.Fix)
			}
			require.Equal(t, c.codes, codes)
			require.Equal(t, c.kind, v.Kind)
		})
	}
}

func TestInfrastructureIsAllButTheTaskAndTheUnknown(t *testing.T) {
	own := []verdict.Kind{verdict.Task, verdict.Run, verdict.Container, verdict.Unknown}
	for _, k := range verdict.Kinds {
		require.Equal(t, !slices.Contains(own, k), k.Infrastructure(), k)
	}
	require.False(t, verdict.Kind("").Infrastructure())
}

// JSON has no infinite number, and each number of a reason is for a page.
func TestVerdictsOfShortAndEmptyRecordsAreValidJSON(t *testing.T) {
	empty := task{}.record()
	empty.Machine, empty.GPUs = nil, nil
	once := task{}.record()
	once.Machine, once.GPUs[gpu0] = once.Machine[:1], once.GPUs[gpu0][:1]
	early := task{}.record()
	early.End.Ended = began.Add(-time.Hour) // of a clock that was set back
	for _, r := range []*taskrecord.Record{empty, once, early} {
		v := verdict.Decide(r)
		require.Equal(t, verdict.Task, v.Kind)
		_, err := json.Marshal(v)
		require.NoError(t, err)
	}
}
