package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// Busy is not work: a GPU whose shader waits for ever is 100 % busy. It spins if it was busy to
// the end of a task that was stopped, or aborted as by a watchdog, and
//
//	needs                          | the sign
//	busy, power, clock if known    | its power fell to spinPower of the time before at an equal clock
//	busy, CPU, disk and network    | the task did nothing at all
//	busy, and the scan of users    | no client's engine time grew, and no compute unit was occupied
//
// No reading shows whether the GPU or its program is the reason, so it is a sign.
var spinRule = Rule{Code: "gpu-spins", Kind: GPU, find: gpuSpins,
	When: "stopped or aborted, its GPU 90 % busy to the end: 60 s at 40 % of the power before and an equal clock, " +
		"45 s without work of a client, or 120 s in which the task did nothing",
	Source: "amdgpu_pm.c, drm-usage-stats.rst, kfd_process.c",
	Fix:    runAgain + " If it spins on several GPUs, its own kernel waits for itself."}

// Limits of the rule.
const (
	spinBusy    = 900  // thousandths
	spinPower   = .4   // of the power before
	spinClock   = .8   // of the clock before
	spinLeast   = 60.  // seconds at low power
	spinQuiet   = 120. // seconds in which the task did nothing
	quietCPU    = 5_000
	spinScans   = 3   // of the users
	spinUnused  = 45. // seconds of these scans
	powerBefore = 20. // seconds for which the power before was reached
)

// spin describes a GPU that was busy without work.
type spin struct {
	since time.Time
	sign  string
	watts [2]float64 // before and at the end; 0 if the power is not the sign
}

func gpuSpins(f *facts) []finding {
	return f.eachGPU(func(name string, _ []taskrecord.Sample) (finding, bool) {
		s, ok := f.spins[name]
		seconds := f.ended.Sub(s.since).Seconds()
		return finding{text: fmt.Sprintf("GPU %s was busy for the last %.0f s, %s", name, seconds, s.sign),
			numbers: map[string]float64{"seconds": seconds, "watts_before": s.watts[0], "watts": s.watts[1]}}, ok
	})
}

// findSpins returns the GPUs that spin.
func (f *facts) findSpins() map[string]spin {
	const aborted = 134
	all := map[string]spin{}
	if !f.stopped() && f.exit() != aborted {
		return all
	}
	quiet := f.quiet(quietCPU, func(_, _ taskrecord.Sample) bool { return false })
	for _, g := range f.Head.GPUs {
		busy := busyToTheEnd(f.GPUs[g.Name])
		if tasks, _ := most(busy, taskrecord.Tasks); tasks > 1 || span(busy) < spinUnused {
			continue
		}
		if s, ok := powerFell(f.GPUs[g.Name], busy); ok {
			all[g.Name] = s
		} else if s, ok := unused(busy, quiet > 0); ok && f.stopped() {
			all[g.Name] = s
		} else if _, scanned := first(busy, taskrecord.Users); !scanned && f.stopped() &&
			min(quiet, span(busy)) >= spinQuiet {
			since := f.ended.Add(-time.Duration(min(quiet, span(busy)) * float64(time.Second)))
			all[g.Name] = spin{since: since, sign: "and " + f.name() + " did nothing"}
		}
	}
	return all
}

// busyToTheEnd returns the samples at the end in which a GPU was busy, or nil if most of them do
// not show it: a GPU that is suspended has no value.
func busyToTheEnd(samples []taskrecord.Sample) []taskrecord.Sample {
	shown := 0
	for i := range slices.Backward(samples) {
		v, known := samples[i].Get(taskrecord.Busy)
		if known && v < spinBusy {
			samples = samples[i+1:]
			break
		}
		if known {
			shown++
		}
	}
	if 2*shown < len(samples) {
		return nil
	}
	return samples
}

// powerFell reports a power that fell for good while the GPU was busy.
func powerFell(all, busy []taskrecord.Sample) (spin, bool) {
	var before []taskrecord.Sample // by power, the most first
	for _, s := range all {
		v, _ := s.Get(taskrecord.Busy)
		if _, known := s.Get(taskrecord.Power); known && v >= spinBusy/2 {
			before = append(before, s)
		}
	}
	slices.SortFunc(before, func(a, b taskrecord.Sample) int {
		return int(b.Value(taskrecord.Power) - a.Value(taskrecord.Power))
	})
	n := min(len(before), 1+int(powerBefore*float64(len(all))/max(1, span(all))))
	if n == 0 {
		return spin{}, false
	}
	before = before[:n]
	high := float64(before[n-1].Value(taskrecord.Power))
	low := busy
	for i := range slices.Backward(busy) {
		if v, known := busy[i].Get(taskrecord.Power); known && float64(v) > spinPower*high {
			low = busy[i+1:]
			break
		}
	}
	if watts, known := mean(low, taskrecord.Power); known && span(low) >= spinLeast {
		clock, known := mean(low, taskrecord.Clock)
		was, also := mean(before, taskrecord.Clock)
		return spin{since: time.UnixMilli(low[0].At), watts: [2]float64{high / 1000, watts / 1000},
				sign: fmt.Sprintf("with %.0f W at the clock of %.0f W before", watts/1000, high/1000)},
			!known || !also || clock >= spinClock*was
	}
	return spin{}, false
}

// unused reports a GPU on which no client worked. A task that has it not open must be quiet.
func unused(busy []taskrecord.Sample, quiet bool) (spin, bool) {
	scans, since, last := 0, int64(0), int64(0)
	for i := range slices.Backward(busy) {
		v, known := busy[i].Get(taskrecord.Users)
		if !known {
			continue
		}
		if v != taskrecord.TaskWaits && (v != taskrecord.NoUser || !quiet) {
			break
		}
		scans, since, last = scans+1, busy[i].At, max(last, busy[i].At)
	}
	if scans < spinScans || float64(busy[len(busy)-1].At-since)/1000 < spinUnused {
		return spin{}, false
	}
	return spin{since: time.UnixMilli(since), sign: "and no process worked on it"}, true
}

// mean returns the mean of the known values.
func mean(samples []taskrecord.Sample, counter int) (v float64, ok bool) {
	sum, n := 0., 0.
	for _, s := range samples {
		if one, known := s.Get(counter); known {
			sum, n = sum+float64(one), n+1
		}
	}
	return sum / max(1, n), n > 0
}
