package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/gpu"
)

// GPUsFile is which GPUs the unit is known to have.
const GPUsFile = model.StateDir + "/gpus.json"

// KnownGPUs are the most that the unit had since somebody said what it is to
// have: by another compute-runtime, or by the action accept-gpus. Partitions of
// one GPU count once.
type KnownGPUs struct {
	Runtime string     `json:"compute-runtime"`
	PCI     []string   `json:"gpus"`
	Each    []knownGPU `json:"each,omitempty"` // with partitions, in the order of their numbers
}

// knownGPU identifies a GPU by what gpu-device-ids can name.
type knownGPU struct {
	PCI       string `json:"pci"`
	Partition int    `json:"partition,omitempty"`
	UniqueID  string `json:"unique_id,omitempty"`
}

// ReadKnown takes a damaged file for none: the worst that follows is a remark less.
func ReadKnown(r host.Root) (k KnownGPUs, err error) {
	data, err := r.ReadFile(GPUsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil && json.Unmarshal(data, &k) != nil {
		return KnownGPUs{}, nil
	}
	return k, err
}

// ObserveKnown looks which GPUs there were.
func (o *Observed) ObserveKnown(r host.Root) (err error) {
	o.Known, err = ReadKnown(r)
	return err
}

// Write keeps them, where they changed.
func (k KnownGPUs) Write(r host.Root) error {
	have, err := ReadKnown(r)
	if err != nil || have.Runtime == k.Runtime && slices.Equal(have.PCI, k.PCI) && slices.Equal(have.Each, k.Each) {
		return err
	}
	if k.Runtime == "" {
		return r.Remove(GPUsFile)
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return r.WriteFile(GPUsFile, append(data, '\n'), 0o600)
}

// with is what is known from now on, and which GPUs are gone.
func (k KnownGPUs) with(runtime string, all []gpu.GPU) (now KnownGPUs, gone []string) {
	pci := addresses(all)
	switch {
	case runtime != "none" && k.Runtime == runtime && len(k.PCI) > len(pci):
		return k, slices.DeleteFunc(slices.Clone(k.PCI), func(p string) bool { return slices.Contains(pci, p) })
	case len(pci) == 0:
		return KnownGPUs{}, nil
	}
	now = KnownGPUs{Runtime: runtime, PCI: pci}
	for _, g := range all {
		now.Each = append(now.Each, knownGPU{g.PCI, g.Partition, g.UniqueID})
	}
	return now, nil
}

// numbered returns the unit's GPUs by the numbers of gpu-device-ids. GPUs that are missing
// keep theirs, and have no render node: another GPU must not be chosen by the number of one
// that went away.
func (k KnownGPUs) numbered(runtime string, all []gpu.GPU) (list []gpu.GPU) {
	now, missing := k.with(runtime, all)
	if len(missing) == 0 {
		return all
	}
	if now.Each == nil { // of an earlier version
		for _, pci := range now.PCI {
			now.Each = append(now.Each, knownGPU{PCI: pci})
		}
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
			list = append(list, gpu.GPU{PCI: one.PCI, Partition: one.Partition, UniqueID: one.UniqueID})
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
	return list
}

// addresses are the PCI addresses, sorted, each once.
func addresses(all []gpu.GPU) (pci []string) {
	for _, g := range all {
		pci = append(pci, g.PCI)
	}
	slices.Sort(pci)
	return slices.Compact(pci)
}

// miss tells of GPUs that are gone. A worker that had some is none for all steps
// because it has lost them, also where compute-runtime=auto takes what there is.
func (g *GPUs) miss(o Observed) KnownGPUs {
	now, gone := o.Known.with(o.Config.ComputeRuntime, g.All)
	if len(gone) == 0 {
		return now
	}
	g.Asked = true
	for i, pci := range gone {
		if slices.ContainsFunc(o.GPUs.Unusable, func(l gpu.Unusable) bool { return l.PCI == pci && l.Reason == gpu.Hangs }) {
			gone[i] = pci + " (it hangs, see explain-error 2)"
		}
	}
	what := "1 GPU"
	if fewer := len(now.PCI) - len(addresses(g.All)); fewer > 1 {
		what = fmt.Sprintf("%d GPUs", fewer)
	}
	g.Remarks = append(g.Remarks, status.Cause{Kind: status.Active, Text: fmt.Sprintf("%s fewer than before, gone: %s; give them back, or go on without them: juju run %s accept-gpus",
		what, strings.Join(gone, ", "), o.Facts.Unit)})
	return now
}
