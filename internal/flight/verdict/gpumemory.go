package verdict

import (
	"fmt"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// Limits of the rules on the memory of GPUs.
const (
	leakedLeast  = 512 << 20 // bytes at the start
	leakedShare  = .05
	filledShare  = .97 // of the memory, after which an allocation fails
	filledTime   = 10. // seconds before the end: a failed allocation ends a task
	smallestUse  = 64 << 20
	shortSeconds = 5. // a task that lasted less may have used memory between two readings
)

var gpuMemoryRules = []Rule{
	{Code: "gpu-memory-leaked", Kind: GPU, find: gpuLeaked,
		When: "an ended task had left 5 % and 512 MiB of memory; a cause if it was half, or the task alone then " +
			"had 90 %",
		Source: "amdgpu_vram_mgr.c",
		Fix:    runAgain + " gpu-status shows the GPU; see the page on quarantined GPUs.",
		FixRun: runAgain + " The command gpu status shows the GPU; see the page on quarantined GPUs."},
	{Code: "gpu-memory-taken", Kind: Machine, find: gpuTaken,
		When: "programs outside tasks had 10 % and 512 MiB of memory, and the task used the GPU; a cause if " +
			"the task filled the rest in its last 10 s",
		Source: "drm-usage-stats.rst",
		Fix:    "Stop the program, or keep the GPU from tasks with quarantine-gpu. " + runAgain,
		FixRun: "Stop the program: the command gpu top shows it. " + runAgain},
}

// eachMemory calls a rule for the GPUs with known owners of their memory.
func (f *facts) eachMemory(
	rule func(g taskrecord.GPU, samples []taskrecord.Sample) (finding, bool),
) (all []finding) {
	for _, g := range f.Head.GPUs {
		if g.Memory == nil {
			continue
		}
		if found, ok := rule(g, f.GPUs[g.Name]); ok {
			found.gpu = g.Name
			all = append(all, found)
		}
	}
	return all
}

func gpuLeaked(f *facts) []finding {
	return f.eachMemory(func(g taskrecord.GPU, samples []taskrecord.Sample) (finding, bool) {
		left, whole := g.Memory.Ended, g.Memory.Total
		peak, _ := most(samples, taskrecord.VideoUsed)
		tasks, _ := most(samples, taskrecord.Tasks)
		return finding{cause: left >= .5*whole || tasks <= 1 && peak >= .9*whole,
				text: fmt.Sprintf("%s of %s video memory of GPU %s were left by a program that ended, and at most %s were "+
					"in use", size(left), size(whole), g.Name, size(peak)),
				numbers: map[string]float64{"bytes_before": left, "bytes": whole, "bytes_peak": peak}},
			left >= leakedLeast && left >= leakedShare*whole
	})
}

// gpuTaken finds memory that programs outside tasks have. It is shown for each failure. It is a
// sign only if the task can have missed memory: if it was stopped or used none of the GPU's, it
// did not.
func gpuTaken(f *facts) []finding {
	return f.eachMemory(func(g taskrecord.GPU, samples []taskrecord.Sample) (finding, bool) {
		taken, whole := g.Memory.Others, g.Memory.Total
		used, known := least(samples, taskrecord.VideoUsed)
		peak, _ := most(samples, taskrecord.VideoUsed)
		tasks, _ := most(samples, taskrecord.Tasks)
		found := finding{text: fmt.Sprintf("GPU %s: %s, and at most %s in all", g.Name, g.Memory.Text, size(peak)),
			numbers: map[string]float64{"bytes_others": taken, "bytes": whole, "bytes_peak": peak}}
		switch {
		case f.stopped() || known && peak-used < smallestUse && f.lasted >= shortSeconds && whole-peak >= leakedLeast:
			found.kind = Unknown
		case tasks <= 1 && peak-used >= (whole-used)/2:
			found.cause = f.filledAt(samples, filledShare*whole) >= f.lasted-filledTime
		}
		return found, taken > 0
	})
}

// filledAt returns the second of the task in which a GPU's memory in use reached a size first.
// It returns a negative number if it never did.
func (f *facts) filledAt(samples []taskrecord.Sample, size float64) float64 {
	for _, s := range samples {
		if v, ok := s.Get(taskrecord.VideoUsed); ok && float64(v) >= size {
			return float64(s.At-f.began.UnixMilli()) / 1000
		}
	}
	return -filledTime - 1
}
