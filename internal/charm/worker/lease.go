package worker

import (
	"encoding/json"
	"slices"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/pool/lease"
)

// LeaseReport is where the exporter, which is not root, finds who leases the
// GPUs; see watcher.ReportLeases.
const LeaseReport = "/run/concourse-gpu-leases.json"

// ObserveLinks looks at how the unit's GPUs are joined, where leases choose
// between them.
func (o *Observed) ObserveLinks(r host.Root) {
	if o.Config.GPUSharing == config.Exclusive {
		o.Links = gpu.ReadLinks(r, o.GPUs.GPUs)
	}
}

// observeHeld reads which GPUs are leased from what was written down for the exporter.
// The leases themselves are not looked at in a hook. Nothing hangs on it: it is told to
// people, so a report that is old or can't be read counts as none.
func (o *Observed) observeHeld(h host.Host) {
	data, err := h.ReadFile(LeaseReport)
	var r monitor.LeaseReport
	if o.Config.GPUSharing != config.Exclusive || err != nil || json.Unmarshal(data, &r) != nil || h.Now().Sub(r.At).Abs() > monitor.StaleLeases {
		return
	}
	o.Held = map[string]bool{}
	for _, g := range r.GPUs {
		o.Held[g.Name] = g.Held
	}
}

// leases is how the wrapper leases the chosen GPUs; nil where tasks share them.
func leases(o Observed, g GPUs) *oci.Leases {
	if o.Config.GPUSharing != config.Exclusive || len(g.Chosen) == 0 {
		return nil
	}
	gpus := chosenInOrder(g)
	return &oci.Leases{Dir: lease.DefaultDir, GPUs: leasedGPUs(gpus), Links: weights(o, gpus), Bench: bench(o, gpus)}
}

// leasedGPUs are the GPUs by their slots: an index or a name of a description can
// become another GPU's while a task computes on the one that had it. Who opens the card's
// node computes as well.
func leasedGPUs(gpus []gpu.GPU) (list []oci.LeasedGPU) {
	for _, g := range gpus {
		one := oci.LeasedGPU{Name: gpu.Slot(g.PCI, g.Partition), Nodes: []string{g.Render.Path}}
		if g.Card != nil {
			one.Nodes = append(one.Nodes, g.Card.Path)
		}
		list = append(list, one)
	}
	return list
}

// chosenInOrder are the GPUs that tasks get, in the order in which the wrapper's config
// has them.
func chosenInOrder(g GPUs) (of []gpu.GPU) {
	for _, one := range g.All {
		if contains(g.Chosen, one) {
			of = append(of, one)
		}
	}
	return of
}

// weights are the links between the GPUs as leases weigh them, nil where none
// is better than another as far as is known.
func weights(o Observed, gpus []gpu.GPU) [][]int {
	at := make([]int, len(gpus)) // in o.GPUs.GPUs
	for i, of := range gpus {
		at[i] = slices.IndexFunc(o.GPUs.GPUs, func(g gpu.GPU) bool { return g.Render.Path == of.Render.Path })
	}
	rows, better := make([][]int, len(gpus)), false
	for i, a := range at {
		rows[i] = make([]int, len(gpus))
		for j, b := range at {
			if i != j && max(a, b) < len(o.Links) && min(a, b) >= 0 {
				l := o.Links[a][b]
				rows[i][j] = lease.LinkWeight(l.Same, l.Hops, l.NUMA)
			}
			better = better || rows[i][j] != 0
		}
	}
	if !better {
		return nil
	}
	return rows
}

// desireLeases says where leases can't have an effect, and takes the report away
// that an exporter would go on showing.
func desireLeases(d *Desired, o Observed, g GPUs) {
	if o.Config.GPUSharing == config.Exclusive && g.Vendor == "" && len(g.Causes) == 0 {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: "gpu-sharing=exclusive has no effect while compute-runtime=none"})
	}
	if o.Config.GPUBench && o.Config.GPUSharing != config.Exclusive {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: "gpu-bench=true has no effect while gpu-sharing=shared"})
	}
	if leases(o, g) == nil {
		d.Resources = append(d.Resources, leaveLeases("GPUs are not leased"))
	}
}

func leaveLeases(why string) plan.Resource { return resource.Absent{Path: LeaseReport, Why: why} }
