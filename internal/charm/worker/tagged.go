package worker

import (
	"slices"
	"time"

	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/pool/quarantine"
)

// A change of the tags restarts the worker's process, and a build whose volumes Concourse
// is making at that moment is errored. The wrapper keeps withheld GPUs from tasks without
// them, so they follow late.

// tagsFile remembers which GPUs the tags leave out, and since when.
const tagsFile = model.StateDir + "/gpu-tags.json"

const (
	// tagsTime is the least time between two changes of the tags for the sake of withheld
	// GPUs.
	tagsTime = 5 * time.Minute
	// shortTime is how long a GPU is withheld before the tags leave it out. Most are back
	// by then: the first proof is half of it.
	shortTime = 10 * time.Minute
)

// taggedGPUs is tagsFile.
type taggedGPUs struct {
	Out []string  `json:"out"` // slots
	At  time.Time `json:"at"`
}

// follow is which of the chosen GPUs the tags leave out now: of those that are withheld
// the ones that are so for long, and at once those that leave none of their architecture
// in service, as a step that asks for it can't run here. A GPU that the tags leave out
// stays so until it is back. A clock that was set back must not hold the tags up.
func (t taggedGPUs) follow(chosen []gpu.GPU, withheld []quarantine.GPU, now time.Time) taggedGPUs {
	serves := map[string]bool{} // architectures
	sick := map[string]quarantine.GPU{}
	for _, g := range withheld {
		sick[g.Name] = g
	}
	for _, g := range chosen {
		if _, is := sick[gpu.Slot(g.PCI, g.Partition)]; !is {
			serves[g.GFX] = true
		}
	}
	var out []string
	for _, g := range chosen {
		slot := gpu.Slot(g.PCI, g.Partition)
		if w, is := sick[slot]; is && (!serves[g.GFX] || slices.Contains(t.Out, slot) || now.Sub(*w.OutSince).Abs() >= shortTime) {
			out = append(out, slot)
		}
	}
	if slices.Equal(t.Out, out) || now.Sub(t.At).Abs() < tagsTime {
		return t
	}
	return taggedGPUs{out, now.UTC()}
}
