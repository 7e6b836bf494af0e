package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// Limits of the rules on GPUs.
const (
	lostSeconds    = 5.   // without an answer
	throttledShare = 200. // thousandths of the time under a thermal limit
)

var gpuRules = []Rule{
	{Code: "gpu-hang", Kind: GPU, find: gpuHang,
		When: "the driver logged [dead firmware or a reset](../../docs/reference/gpu-errors.md#2-gpu-hang), wrote a dump, " +
			"or rejected all readings",
		Source: "amdgpu_job.c, amdgpu_device.c, devcoredump.c",
		Fix:    runAgain + " If it hangs on several GPUs, its own kernel is the cause; the dump shows it."},
	{Code: "gpu-memory-error", Kind: GPU, find: gpuErrors,
		When:   "new uncorrectable errors or bad pages, counted or logged",
		Source: "amdgpu_ras.c",
		Fix:    runAgain + " The GPU is quarantined; gpu-status shows what it needs.",
		FixRun: runAgain + " The GPU is quarantined; the command gpu status shows what it needs."},
	{Code: "gpu-lost", Kind: GPU, find: gpuLost,
		When:   "the card left the bus, or was awake and gave no value for 5 s",
		Source: "amdgpu_device.c, pciehp_ctrl.c, amdgpu_pm.c",
		Fix:    runAgain + " Look at gpu-health.", FixRun: runAgain + " The command gpu health shows the GPU."},
	{Code: "gpu-throttled", Kind: GPU, find: gpuThrottled, slows: true,
		When:   "slow: under a thermal limit; a cause only if stopped",
		Source: "kgd_pp_interface.h",
		Fix:    "Cool the GPU: look at its fan, its slot and the air of the room. " + runAgain},
	spinRule,
}

// eachGPU calls a rule for the GPUs of the task, in the order of the record.
func (f *facts) eachGPU(rule func(name string, samples []taskrecord.Sample) (finding, bool)) (all []finding) {
	for _, g := range f.Head.GPUs {
		if found, ok := rule(g.Name, f.GPUs[g.Name]); ok {
			found.gpu = g.Name
			all = append(all, found)
		}
	}
	return all
}

// eventOf returns the first event of these kinds on a GPU. The kernel names whole GPUs.
func (f *facts) eventOf(gpu string, kinds ...taskrecord.EventKind) (taskrecord.Event, bool) {
	for _, e := range f.eventsOf(gpu) {
		if slices.Contains(kinds, e.Kind) {
			return e, true
		}
	}
	return taskrecord.Event{}, false
}

// late is the time after the end in which events are of the task. The firmware of a GPU that
// hung while it worked for a stopped task can be silent until the driver gives up.
func (f *facts) late() time.Duration {
	if f.stopped() {
		return 5 * time.Minute
	}
	return time.Minute
}

func (f *facts) eventsOf(gpu string) (all []taskrecord.Event) {
	for _, e := range f.Events {
		if (e.GPU == gpu || e.GPU != "" && len(gpu) > len(e.GPU) && gpu[:len(e.GPU)+1] == e.GPU+"-") &&
			!e.At.After(f.ended.Add(f.late())) {
			all = append(all, e)
		}
	}
	return all
}

// ringResetTime is the longest time from a ring that stops to the end of its reset.
const ringResetTime = time.Minute

// hangOf returns the first event of a hang. A ring that was reset alone hurt one process: it is
// a hang for a task that may have had the process.
func (f *facts) hangOf(gpu string) (e taskrecord.Event, ring, ok bool) {
	events := f.eventsOf(gpu)
	resetAfter := func(at time.Time) bool {
		return slices.ContainsFunc(events, func(r taskrecord.Event) bool {
			after := r.At.Sub(at)
			return r.Kind == taskrecord.RingReset && after > -5*time.Second && after <= ringResetTime
		})
	}
	for _, one := range events {
		switch one.Kind {
		case taskrecord.GPUHang, taskrecord.GPUReset:
			return one, false, true
		case taskrecord.GPUStuck, taskrecord.Dump:
			if !resetAfter(one.At) && (!ok || ring) {
				e, ring, ok = one, false, true
			}
		case taskrecord.RingReset:
			if one.Detail != taskrecord.ByOther && !ok {
				e, ring, ok = one, true, true
			}
		}
	}
	return e, ring, ok
}

func gpuHang(f *facts) []finding {
	return f.eachGPU(func(name string, samples []taskrecord.Sample) (finding, bool) {
		if _, lost := f.eventOf(name, taskrecord.GPULost); lost {
			return finding{}, false
		}
		e, ring, ok := f.hangOf(name)
		hangs := func(_, now taskrecord.Sample, _ float64) bool {
			v, _ := now.Get(taskrecord.Hanging)
			return v == 1
		}
		hanging := timeWith(samples, hangs)
		if !ok && hanging == 0 {
			return finding{}, false
		}
		text := fmt.Sprintf("GPU %s hung or was reset", name)
		if ring {
			text = fmt.Sprintf("a ring of GPU %s hung and was reset", name)
		}
		numbers := map[string]float64{"seconds": hanging}
		if ok {
			numbers["seconds_before_end"] = f.ended.Sub(e.At).Seconds()
			text += " at " + e.At.UTC().Format("15:04:05 UTC")
		}
		kind := Kind("")
		if own, found := f.eventOf(name, taskrecord.OwnFault); found {
			kind, text = Task, text+"; "+own.Detail
		}
		cause := !ok || f.eventRecently(name) || timeWith(f.last(samples), hangs) > 0 // it may last to the end
		return finding{kind: kind, cause: cause, text: text, numbers: numbers}, true
	})
}

func gpuErrors(f *facts) []finding {
	return f.eachGPU(func(name string, samples []taskrecord.Sample) (finding, bool) {
		errors := taskrecord.Growth(samples, taskrecord.Uncorrectable)
		pages := taskrecord.Growth(samples, taskrecord.BadPages)
		e, logged := f.eventOf(name, taskrecord.GPUError)
		text := fmt.Sprintf("GPU %s had %.0f uncorrectable errors and %.0f new bad pages", name, errors, pages)
		if errors+pages == 0 {
			text = fmt.Sprintf("GPU %s had %s", name, cmp.Or(e.Detail, "uncorrectable errors, which the kernel logged"))
		}
		return finding{cause: true, text: text,
				numbers: map[string]float64{"uncorrectable_errors": errors, "bad_pages": pages}},
			errors > 0 || pages > 0 || logged
	})
}

func gpuLost(f *facts) []finding {
	return f.eachGPU(func(name string, samples []taskrecord.Sample) (finding, bool) {
		dead := func(_, now taskrecord.Sample, _ float64) bool {
			v, ok := now.Get(taskrecord.Alive)
			return ok && v == 0
		}
		lost := timeWith(samples, dead)
		text := fmt.Sprintf("GPU %s gave no answer for %.0f s", name, lost)
		e, gone := f.eventOf(name, taskrecord.GPULost)
		if gone {
			text = fmt.Sprintf("GPU %s left the bus at %s", name, e.At.UTC().Format("15:04:05 UTC"))
		}
		cause := gone || timeWith(f.last(samples), dead) > 0
		return finding{cause: cause, text: text, numbers: map[string]float64{"seconds": lost}}, gone || lost >= lostSeconds
	})
}

func gpuThrottled(f *facts) []finding {
	return f.eachGPU(func(name string, samples []taskrecord.Sample) (finding, bool) {
		hot := func(_, now taskrecord.Sample, _ float64) bool {
			v, _ := now.Get(taskrecord.Thermal)
			return float64(v) >= throttledShare
		}
		under, lately := timeWith(samples, hot), timeWith(f.last(samples), hot)
		share := 0.
		if t := span(samples); t > 0 {
			share = under / t
		}
		hottest, _ := most(samples, taskrecord.Temperature)
		return finding{text: fmt.Sprintf("GPU %s was slowed down by heat for %.0f s, %.0f %% of the time, at up to %.0f °C",
				name, under, share*100, hottest/10),
				numbers: map[string]float64{"seconds": under, "share": share, "celsius": hottest / 10}},
			share >= moderate && under >= leastStall && (lately > 0 || f.stopped())
	})
}
