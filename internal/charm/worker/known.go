package worker

import (
	"reflect"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// GPUsFile has the GPUs that the unit had.
const GPUsFile = wellknown.StateDir + "/known-gpus.json"

// KnownGPUs holds the most GPUs that the unit had since compute-runtime changed or the
// action accept-gpus ran. Partitions of one GPU count as one.
type KnownGPUs struct {
	Runtime config.ComputeRuntime `json:"compute-runtime"`
	PCI     []string              `json:"gpus"`
	Each    []gpu.Slot            `json:"each,omitempty"` // with partitions, in the order of their numbers
	// BesideCard has the integrated GPUs beside a card. They stay so while the card is missing:
	// the worker must not become a worker with the tags of the integrated GPU.
	BesideCard []string `json:"beside_card,omitempty"`
}

// knownState is disposable: the only loss is a warning.
var knownState = statefile.File[KnownGPUs]{Path: GPUsFile, Mode: 0o600, Disposable: true}

// ReadKnown reads GPUsFile.
func ReadKnown(r host.Root) (KnownGPUs, error) { return knownState.Read(r) }

// ObserveKnown reads the previous GPUs of the unit.
func (o *Observed) ObserveKnown(r host.Root) (err error) {
	o.Known, err = ReadKnown(r)
	return err
}

// Write writes GPUsFile if its content changed.
func (k KnownGPUs) Write(r host.Root) error {
	have, err := ReadKnown(r)
	if err != nil || reflect.DeepEqual(have, k) {
		return err
	}
	if k.Runtime == "" {
		return knownState.Remove(r)
	}
	return knownState.Write(r, k)
}

// update returns the GPUs to record from now on, and the addresses of the missing GPUs.
func (k KnownGPUs) update(runtime config.ComputeRuntime, all []gpu.GPU) (now KnownGPUs, missing []string) {
	pci := addresses(all)
	switch {
	case runtime != config.RuntimeNone && k.Runtime == runtime && len(k.PCI) > len(pci):
		return k, slices.DeleteFunc(slices.Clone(k.PCI), func(p string) bool { return slices.Contains(pci, p) })
	case len(pci) == 0:
		return KnownGPUs{}, nil
	}
	now = KnownGPUs{Runtime: runtime, PCI: pci}
	for _, g := range all {
		now.Each = append(now.Each, g.Stored())
		if g.BesideCard {
			now.BesideCard = append(now.BesideCard, g.PCI)
		}
	}
	return now, nil
}

// numbered returns the unit's GPUs in the order of gpu-device-ids. Missing GPUs keep their
// numbers and have no render node, so that the number of a removed GPU never chooses
// another GPU.
func (k KnownGPUs) numbered(runtime config.ComputeRuntime, all []gpu.GPU) (list []gpu.GPU) {
	now, missing := k.update(runtime, all)
	if len(missing) == 0 {
		return all
	}
	add := func(pci string) {
		for _, g := range all {
			if g.PCI == pci {
				list = append(list, g)
			}
		}
	}
	last := ""
	for _, one := range now.Each {
		if slices.Contains(missing, one.PCI) {
			list = append(list, gpu.GPU{Slot: one})
		} else if one.PCI != last {
			add(one.PCI)
		}
		last = one.PCI
	}
	for _, pci := range addresses(all) {
		if !slices.Contains(now.PCI, pci) {
			add(pci)
		}
	}
	for i := range list {
		list[i].BesideCard = list[i].BesideCard || slices.Contains(now.BesideCard, list[i].PCI)
	}
	return list
}

// addresses returns the sorted PCI addresses without duplicates.
func addresses(all []gpu.GPU) (pci []string) {
	for _, g := range all {
		pci = append(pci, g.PCI)
	}
	slices.Sort(pci)
	return slices.Compact(pci)
}

// explainHang returns the command that explains a hang.
func explainHang(c wellknown.Commands) string { return c.RunAction("explain-error code=2") }

// reportMissing adds the warning on missing GPUs and returns the GPUs to record. A worker
// that lost its GPUs stays a GPU worker, also with compute-runtime=auto: it must not take
// the steps of all teams.
func (g *GPUs) reportMissing(o Observed) KnownGPUs {
	now, missing := o.Known.update(o.Config.GPU.ComputeRuntime, g.All)
	if len(missing) == 0 {
		return now
	}
	g.Requested = true
	const named = 2
	lost := status.Warn("%s missing: %s", units.Count(max(1, len(now.PCI)-len(addresses(g.All))), "GPU"),
		strings.Join(missing[:min(named, len(missing))], ", "))
	hangs := false
	for i, pci := range missing {
		hanging := func(l gpu.GPU) bool { return l.PCI == pci && l.Reason == gpu.Hangs }
		if slices.ContainsFunc(o.GPUs.Unusable, hanging) {
			missing[i], hangs = pci+" (it hangs)", true
		}
	}
	lost = lost.Explain("%s", strings.Join(missing, ", ")).
		Fix("restore them or run: " + o.Facts.Commands().RunAction("accept-gpus"))
	if hangs {
		lost = lost.Run(explainHang(o.Facts.Commands()))
	}
	g.Warnings = append(g.Warnings, lost)
	return now
}
