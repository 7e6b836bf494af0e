package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Heading names the unit and the host of the GPUs.
func Heading(r Report) string {
	switch {
	case r.Unit != "" && r.Host != "":
		return "GPUs of " + r.Unit + " on " + r.Host
	case r.Unit != "":
		return "GPUs of " + r.Unit
	case r.Host != "":
		return "GPUs of " + r.Host
	}
	return "GPUs"
}

// States are in the order of the page: the most urgent first.
var States = []health.State{health.Critical, health.Warning, health.Unknown, health.Healthy}

// Summary counts the GPUs by state, the worst first, and the GPUs that are excluded from
// new tasks.
func Summary(r Report) string {
	counts, gpus := map[health.State]int{}, GroupByGPU(r.GPUs)
	for _, partitions := range gpus {
		counts[StateOf(partitions[0])]++
	}
	var parts []string
	for _, state := range States {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	text, noun := units.Count(len(gpus), "GPU"), ""
	switch all := len(r.GPUs); {
	case all == 0:
		return "No GPU"
	case all > len(gpus):
		text, noun = units.Count(all, "partition")+" of "+text, "of them "
	}
	return text + ": " + strings.Join(parts, ", ") + excludedText(r.GPUs, noun)
}

// excludedText counts the GPUs that are excluded from new tasks, "" without any. Each partition
// is leased separately.
func excludedText(all []Status, noun string) (text string) {
	counts := map[quarantine.State]int{}
	for i := range all {
		if all[i].Excluded() {
			counts[all[i].Service.State]++
		}
	}
	for _, state := range []quarantine.State{quarantine.Quarantined, quarantine.OnProbation} {
		if n := counts[state]; n > 0 {
			text += fmt.Sprintf("; %d %s%s", n, noun, state)
		}
	}
	return text
}

// StateOf returns one of States.
func StateOf(s Status) health.State {
	if !slices.Contains(States, s.Health.State) {
		return health.Unknown
	}
	return s.Health.State
}

// GroupByGPU groups the partitions of one GPU, which share its address and are adjacent.
func GroupByGPU(all []Status) (out [][]Status) {
	for i := 0; i < len(all); {
		n := i + 1
		for n < len(all) && all[n].PCI == all[i].PCI && all[n].Partitions > 1 {
			n++
		}
		out = append(out, all[i:n])
		i = n
	}
	return out
}
