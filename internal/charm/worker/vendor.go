package worker

import (
	"context"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// vendor does the charm's work that differs between vendors of GPUs. Work that only one
// vendor needs is a gpu.Feature.
type vendor interface {
	// observe reads the vendor's driver and toolkit.
	observe(ctx context.Context, o *Observed, h host.Host) error
	// readSpec reads a CDI description that the charm does not write itself.
	readSpec(o *Observed, r host.Root) error

	// explainUnit adds the causes that concern all GPUs of the unit.
	explainUnit(g *GPUs, o Observed)
	// explainChosen adds the causes why tasks cannot use the chosen GPUs.
	explainChosen(g *GPUs, o Observed)

	// desire returns the driver and the toolkit, and describes them in w.
	desire(o Observed, g GPUs, w *Worker) part
	// describe returns the CDI description that the charm writes.
	describe(o Observed, g GPUs) part
	// wrap adds the environment of tasks to the wrapper's settings.
	wrap(c *oci.Config, o Observed, g GPUs) error
	// watch adds the flags of the exporter, and the programs of root that write its reports.
	watch(l *resource.PebbleLayer, o Observed, g GPUs)
	// uninstall removes driver and toolkit.
	uninstall(o role.Observed, why string) []plan.Resource

	// refresh returns the descriptions of the vendor's own tool, between two hooks.
	refresh(o Observed, r host.Root) ([]plan.Resource, error)
	// notes returns texts on failed installations: for the status, and others only for
	// check-status. failed reports that an optional step of this hook failed.
	notes(r host.Root, w Worker, failed bool) (texts, details []string)
}

// vendors registers the work for all gpu.Vendors.
var vendors = map[gpu.Vendor]vendor{gpu.AMD: amdVendor{}, gpu.NVIDIA: nvidiaVendor{}}

// eachVendor joins the parts of all vendors.
func eachVendor(of func(vendor) part) (all part) {
	for _, v := range gpu.Vendors() {
		all.join(of(vendors[v]))
	}
	return all
}

// ReadSpecs reads the CDI descriptions that the charm does not write itself.
func (o *Observed) ReadSpecs(r host.Root) error {
	for _, v := range gpu.Vendors() {
		if err := vendors[v].readSpec(o, r); err != nil {
			return err
		}
	}
	return nil
}

// RefreshSpecs has the vendors' tools describe their GPUs again, if the charm did so
// before, and reads the descriptions.
func (o *Observed) RefreshSpecs(ctx context.Context, h host.Host) (p plan.Plan, err error) {
	var all []plan.Resource
	for _, v := range gpu.Vendors() {
		rs, err := vendors[v].refresh(*o, h.Root)
		if err != nil {
			return nil, err
		}
		all = append(all, rs...)
	}
	if p, err = plan.Diff(ctx, h, all...); err != nil {
		return nil, err
	}
	if _, err = p.Apply(ctx, nil); err != nil {
		return p, err
	}
	return p, o.ReadSpecs(h.Root)
}

// ToolkitNotes returns texts on failed installations of the toolkit and the driver: for the
// status, and others only for check-status. failed reports that an optional step of this
// hook failed.
func (w Worker) ToolkitNotes(r host.Root, failed bool) (texts, details []string) {
	if w.Toolkit == "" {
		return nil, nil
	}
	return vendors[w.Toolkit].notes(r, w, failed)
}
