package worker

import (
	"slices"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/kube/nodelabels"
)

// ObserveLabels reads what labels of a node tell of the GPUs, where somebody could read
// them: Node Feature Discovery is set up, or the machine has a kubelet.
func (o *Observed) ObserveLabels(r host.Root) {
	if o.Config.Kubernetes == "off" || !r.Exists(nodelabels.Parent) && !r.Exists(kubeletDir) {
		return
	}
	m := nodelabels.Read(r, o.GPUs.Of(gpu.AMD))
	o.NodeLabels = &m
}

// desireLabels is the file of labels: those of the GPUs that tasks get, which are also
// those that pods are offered.
func desireLabels(d *Desired, o Observed, g GPUs) {
	if o.NodeLabels == nil || g.Vendor != gpu.AMD || len(g.Chosen) == 0 {
		d.Resources = append(d.Resources, resource.Absent{Path: nodelabels.File, Why: "the unit has no GPUs to tell Kubernetes of"})
		return
	}
	m := *o.NodeLabels
	m.GPUs = slices.DeleteFunc(slices.Clone(m.GPUs), func(l nodelabels.GPU) bool {
		return !slices.ContainsFunc(g.Chosen, func(c gpu.GPU) bool { return gpu.Slot(c.PCI, c.Partition) == l.Slot })
	})
	d.Resources = append(d.Resources, resource.File{Path: nodelabels.File, Data: nodelabels.Lines(nodelabels.Labels(m)), Mode: 0o644})
}
