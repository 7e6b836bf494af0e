package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// facts answers questions about a record for the rules.
type facts struct {
	*taskrecord.Record
	began, ended time.Time
	lasted       float64         // seconds
	turned       time.Time       // the end, or the last work of a task that then waited until it was stopped
	spins        map[string]spin // GPUs that were busy without work at the end
}

func newFacts(r *taskrecord.Record) *facts {
	f := &facts{Record: r, began: r.Head.Started, ended: r.Ended()}
	f.lasted = max(0, f.ended.Sub(f.began).Seconds())
	f.turned = f.ended
	f.spins = f.findSpins()
	if f.stopped() {
		f.turned = f.ended.Add(-time.Duration(f.idle() * float64(time.Second)))
	}
	for _, s := range f.spins {
		if s.since.Before(f.turned) {
			f.turned = s.since
		}
	}
	return f
}

// name returns the words for the task, run or container.
func (f *facts) name() string { return "the " + string(f.own()) }

// own returns the kind of a failure of the task, run or container itself.
func (f *facts) own() Kind { return Kind(cmp.Or(f.Head.Kind, lease.Task)) }

// exit returns the exit status, -1 if it is not known.
func (f *facts) exit() int {
	if f.End == nil || f.End.Exit == nil {
		return -1
	}
	return *f.End.Exit
}

// Exit statuses of a process that a signal ended are 128 and the signal's number.
const (
	byTerm = 128 + 15
	byKill = 128 + 9
	byHand = 124 // timeout(1) ended its command
)

// stopped reports whether the task was ended from outside, as an abort or a timeout of the
// step does. The kernel's OOM killer leaves the same status as SIGKILL.
func (f *facts) stopped() bool {
	e := f.exit()
	return e == byTerm || e == byKill || e == byHand || f.End != nil && f.End.Ending == taskrecord.Removed
}

// recently is the time before the end, or before the last work, in which a sign can have made
// the task fail. A task gets over older ones.
const recently = 2 * time.Minute

func (f *facts) recent(at time.Time) bool { return !at.Before(f.turned.Add(-recently)) }

// eventRecently reports whether anything happened to a GPU or its card recently.
func (f *facts) eventRecently(gpu string) bool {
	return slices.ContainsFunc(f.eventsOf(gpu), func(e taskrecord.Event) bool { return f.recent(e.At) })
}

// last returns the recent samples.
func (f *facts) last(samples []taskrecord.Sample) []taskrecord.Sample {
	i := slices.IndexFunc(samples, func(s taskrecord.Sample) bool { return f.recent(time.UnixMilli(s.At)) })
	if i < 0 {
		return nil
	}
	return samples[max(0, i-1):]
}

// window returns the samples of the machine in which a trouble explains the failure, or nil: the
// recent ones, or all if the task was stopped and the trouble had slowed it down.
func (f *facts) window(met func(before, now taskrecord.Sample, seconds float64) bool) []taskrecord.Sample {
	if f.stopped() && timeWith(f.Machine, met) >= moderate*f.lasted {
		return f.Machine
	}
	return f.last(f.Machine)
}

// grows returns a condition on adjacent samples: a sum grew.
func grows(counter int) func(before, now taskrecord.Sample, seconds float64) bool {
	return func(before, now taskrecord.Sample, seconds float64) bool {
		v, _ := rate(before, now, counter, seconds)
		return v > 0
	}
}

// neverStarted reports whether no process of the task began.
func (f *facts) neverStarted() bool { return f.End != nil && f.End.Ending == taskrecord.NotStarted }

func (f *facts) grown(counter int) float64 { return taskrecord.Growth(f.Machine, counter) }

// shareOf returns the part of the time in which a sum of microseconds grew, 0 to 1, and the
// seconds.
func shareOf(samples []taskrecord.Sample, counter int) (share, seconds float64) {
	seconds = taskrecord.Growth(samples, counter) / 1e6
	if t := span(samples); t > 0 {
		share = min(1, seconds/t)
	}
	return share, seconds
}

// span returns the seconds from the first to the last sample.
func span(samples []taskrecord.Sample) float64 {
	if len(samples) < 2 {
		return 0
	}
	return float64(samples[len(samples)-1].At-samples[0].At) / 1000
}

// first, last, most and least return one of the known values.
func first(samples []taskrecord.Sample, counter int) (float64, bool) {
	for _, s := range samples {
		if v, ok := s.Get(counter); ok {
			return float64(v), true
		}
	}
	return 0, false
}

func most(samples []taskrecord.Sample, counter int) (v float64, ok bool) {
	for _, s := range samples {
		if one, known := s.Get(counter); known && (!ok || float64(one) > v) {
			v, ok = float64(one), true
		}
	}
	return v, ok
}

func least(samples []taskrecord.Sample, counter int) (v float64, ok bool) {
	for _, s := range samples {
		if one, known := s.Get(counter); known && (!ok || float64(one) < v) {
			v, ok = float64(one), true
		}
	}
	return v, ok
}

// timeWith returns the seconds in which a condition on two adjacent samples was met.
func timeWith(
	samples []taskrecord.Sample, met func(before, now taskrecord.Sample, seconds float64) bool,
) (sum float64) {
	for i := 1; i < len(samples); i++ {
		t := float64(samples[i].At-samples[i-1].At) / 1000
		if t > 0 && met(samples[i-1], samples[i], t) {
			sum += t
		}
	}
	return sum
}

// rate returns the growth of a sum between two samples, a second.
func rate(before, now taskrecord.Sample, counter int, seconds float64) (float64, bool) {
	a, ok := before.Get(counter)
	b, also := now.Get(counter)
	if !ok || !also || b < a {
		return 0, false
	}
	return float64(b-a) / seconds, true
}

// tail returns the samples of the last seconds.
func tail(samples []taskrecord.Sample, seconds float64) []taskrecord.Sample {
	if len(samples) == 0 {
		return nil
	}
	from := samples[len(samples)-1].At - int64(seconds*1000)
	for i, s := range samples {
		if s.At >= from {
			return samples[i:]
		}
	}
	return nil
}

// event returns the first event of a kind that is not later than a time after the end.
func (f *facts) event(after time.Duration, kinds ...taskrecord.EventKind) (taskrecord.Event, bool) {
	for _, e := range f.Events {
		for _, k := range kinds {
			if e.Kind == k && !e.At.After(f.ended.Add(after)) {
				return e, true
			}
		}
	}
	return taskrecord.Event{}, false
}

// ownLimit reports whether the task reached its own limit of memory. Without a peak (before
// Linux 5.19), readings 5 s apart miss it, and the kernel's count of hits decides.
func (f *facts) ownLimit() bool {
	peak, known := most(f.Machine, taskrecord.MemoryPeak)
	used, _ := most(f.Machine, taskrecord.MemoryUsed)
	hits, _ := most(f.Machine, taskrecord.MemoryLimitHits)
	return f.Head.Memory > 0 && hits > 0 && (!known || max(used, peak) >= .9*float64(f.Head.Memory))
}

// oomKilled reports whether the kernel recently killed a process of the task to free memory,
// and the scope if the kernel logged it.
func (f *facts) oomKilled() (killed bool, scope string) {
	logged := false
	for _, e := range f.Events {
		if e.Kind == taskrecord.OOMKill && !e.At.After(f.ended.Add(time.Minute)) {
			if f.recent(e.At) {
				return true, e.Detail
			}
			logged = true
		}
	}
	last := f.last(f.Machine)
	kills, _ := most(last, taskrecord.OOMKills)
	before, known := first(last, taskrecord.OOMKills)
	if len(last) == len(f.Machine) && !logged { // the container's group began with 0
		return kills > 0, ""
	}
	return known && kills > before, ""
}

// idle returns the seconds at the end in which the task did nothing: no CPU, disk or
// network, and no work on a GPU.
func (f *facts) idle() float64 { return f.quiet(idleCPU, f.gpusWork) }

// quiet returns these seconds for a limit of the CPU time and a condition of work elsewhere.
// The end itself takes CPU time.
func (f *facts) quiet(limit float64, work func(before, now taskrecord.Sample) bool) float64 {
	idle, spare := 0., endCPU
	for i := len(f.Machine) - 1; i > 0; i-- {
		now, before := f.Machine[i], f.Machine[i-1]
		t := float64(now.At-before.At) / 1000
		if t <= 0 || f.works(before, now, t, limit+spare/t) || work(before, now) {
			break
		}
		idle, spare = idle+t, 0
	}
	return idle
}

// gpusEnded reports whether the record has no reading of a GPU after a time, as the record was
// full: nobody knows if the GPU worked.
func (f *facts) gpusEnded(at int64) bool {
	for _, samples := range f.GPUs {
		if n := len(samples); n > 0 && samples[n-1].At < at {
			return true
		}
	}
	return false
}

// works reports whether the task did something between two samples. limit is the CPU time in
// microseconds a second that is no work.
func (f *facts) works(before, now taskrecord.Sample, seconds, limit float64) bool {
	cpu, known := rate(before, now, taskrecord.CPUUsage, seconds)
	if !known || cpu > limit {
		return true
	}
	for _, c := range []int{taskrecord.DiskRead, taskrecord.DiskWritten, taskrecord.NetReceived, taskrecord.NetSent} {
		if v, _ := rate(before, now, c, seconds); v > idleBytes {
			return true
		}
	}
	return false
}

// gpusWork reports whether a GPU worked for the task between two samples. The last scan of the
// users before counts: it can show that the task had no part of it.
func (f *facts) gpusWork(before, now taskrecord.Sample) bool {
	if f.gpusEnded(before.At) {
		return true
	}
	for name, samples := range f.GPUs {
		s, spins := f.spins[name]
		if spins && now.At > s.since.UnixMilli() {
			continue
		}
		users := int64(taskrecord.TaskWorks)
		for _, s := range samples {
			if v, ok := s.Get(taskrecord.Users); ok {
				users = v
			}
			if busy, ok := s.Get(taskrecord.Busy); ok && s.At > before.At && s.At <= now.At && busy > idleGPU &&
				users == taskrecord.TaskWorks {
				return true
			}
		}
	}
	return false
}

// Below these the task does nothing: microseconds a second, bytes a second, and thousandths
// of a GPU's time.
const (
	idleCPU   = 20_000
	idleBytes = 4096
	idleGPU   = 50
)

// endCPU limits the CPU time, in microseconds, that the end of a task takes and that is no
// work: the kernel frees its memory. The last two samples can be a tenth of a second apart.
const endCPU = 500_000.

// size formats bytes.
func size(bytes float64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.0f MiB", bytes/(1<<20))
	}
	return units.FormatGiB(bytes)
}
