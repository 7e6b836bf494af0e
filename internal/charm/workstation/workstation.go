// Package workstation gives the AMD GPUs of a machine without a unit of the charm to the
// containers of its engines: it keeps their CDI description current, and leases them if the
// user requests that. It takes no options from Juju and starts no service. It changes no
// description or setting that another program made, and nothing at all on a unit.
package workstation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/healthcheck"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/runend"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/engines"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpureset"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/notice"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// mark is in the wrapper's settings if this package wrote them. The wrapper shows it only
// to Concourse's tasks, which a machine without a unit does not have.
const mark = "gpukit leases the GPUs of this machine"

// UnitOf returns the name of the unit that owns the GPUs of this machine, "" without one.
func UnitOf(r host.Root) (string, error) {
	f, err := model.Load(r)
	switch {
	case err == nil:
		return f.Unit, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, model.ErrDamaged):
		return "of the charm", nil // only a unit writes the file
	}
	return "", err
}

// Selection limits the description to some GPUs.
type Selection struct {
	Devices []string // names as cdi.Select takes them; none means all
	NoAll   bool     // leave out the device with all GPUs
}

// Refresh returns the resources for the GPUs that are present now, and notes for the user.
// The settings of leases are among them if leases are on.
func Refresh(h host.Host, program string, s Selection) (want []plan.Resource, notes []string, err error) {
	unit, err := UnitOf(h.Root)
	if err != nil || unit != "" {
		return nil, []string{"nothing to do: the unit " + unit + " describes the GPUs of this machine"}, err
	}
	inv, err := gpu.Discover(h.Root)
	if err != nil {
		return nil, nil, err
	}
	foreign, err := cdi.Foreign(h.Root)
	if err != nil {
		return nil, nil, err
	}
	spec, left, err := cdi.Spec(inv.GPUsOf(gpu.VendorWith(gpu.OwnSpec)), inv.KFD)
	if err == nil && spec != nil && !foreign {
		spec, err = cdi.Select(spec, s.Devices, s.NoAll)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, l := range left {
		notes = append(notes, "left out: "+l)
	}
	switch {
	case foreign:
		notes = append(notes, fmt.Sprintf("%s is another tool's and stays; %s cdi generate replaces it", cdi.Path,
			program))
		if spec, err = cdi.ReadSpec(h.Root, cdi.Path); err != nil {
			return nil, nil, err
		}
	case spec == nil:
		notes = append(notes, "this machine has no AMD GPU that a container could use; "+program+
			" gpu list shows why")
		want = append(want, cdi.Absent{Why: "no AMD GPU is present"})
	default:
		file, err := cdi.File(spec)
		if err != nil {
			return nil, nil, err
		}
		want = append(want, file)
	}
	on, err := Exclusive(h.Root)
	if err != nil || !on {
		return want, notes, err
	}
	c, err := poolOf(h.Root, inv, spec)
	if err != nil {
		return nil, nil, err
	}
	settings, err := leaseSettings(h.Root, c)
	return append(want, settings), notes, err
}

// Exclusive reports whether this package made the wrapper lease the GPUs. An error means
// that the settings cannot be read.
func Exclusive(r host.Root) (bool, error) {
	data, err := r.ReadFile(oci.DefaultConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the settings of leases: %w", err)
	}
	var c oci.Config
	return json.Unmarshal(data, &c) == nil && c.Missing == mark, nil
}

// Lease returns the resources that make the wrapper lease GPUs: a GPU is in one container
// at a time.
func Lease(r host.Root) (want []plan.Resource, err error) {
	unit, err := UnitOf(r)
	switch {
	case err != nil:
		return nil, err
	case unit != "":
		return nil, fmt.Errorf("cannot lease GPUs to containers: this machine is the unit %s; set its option "+
			"gpu-sharing=exclusive, with juju config or concourse-ci-machine set", unit)
	}
	on, err := Exclusive(r)
	if err == nil && !on && r.Exists(oci.DefaultConfig) {
		err = fmt.Errorf("cannot lease GPUs to containers: another program wrote %s; move it away and repeat",
			oci.DefaultConfig)
	}
	if err != nil {
		return nil, err
	}
	c, err := Pool(r)
	if err != nil {
		return nil, err
	}
	settings, err := leaseSettings(r, c)
	return []plan.Resource{settings}, err
}

// Share returns the resources that undo Lease.
func Share(r host.Root) (want []plan.Resource, err error) {
	on, err := Exclusive(r)
	if on {
		want = append(want, resource.Absent{Path: oci.DefaultConfig, Why: "containers share the GPUs"})
	}
	return want, err
}

// Pool returns the AMD GPUs of this machine that can be leased, in the order of their leases:
// names, CDI names, device nodes, links and the file of the quarantine. It has no runtime,
// and needs no configured engine. The wrapper leases the same GPUs after Lease.
func Pool(r host.Root) (oci.Config, error) {
	inv, err := gpu.Discover(r)
	if err != nil {
		return oci.Config{}, err
	}
	// Without a description, as in a dry run, all GPUs will be in it.
	spec, _, err := cdi.Spec(inv.GPUsOf(gpu.VendorWith(gpu.OwnSpec)), inv.KFD)
	if err == nil && r.Exists(cdi.Path) {
		spec, err = cdi.ReadSpec(r, cdi.Path)
	}
	if err != nil {
		return oci.Config{}, err
	}
	return poolOf(r, inv, spec)
}

// poolOf returns a lease for each AMD GPU of a description. An integrated GPU beside a card
// is leased if its user named it, so that it is in the device all of the own description.
func poolOf(r host.Root, inv gpu.Inventory, spec *specs.Spec) (c oci.Config, err error) {
	foreign, err := cdi.Foreign(r)
	if err != nil {
		return c, err
	}
	var chosen []gpu.GPU
	for _, g := range inv.GPUsOf(gpu.VendorWith(gpu.OwnSpec)) {
		described := slices.ContainsFunc(cdi.List(spec),
			func(l cdi.Listed) bool { return slices.Contains(l.Nodes, g.Render.Path) })
		if described && (!g.BesideCard || !foreign && cdi.InAll(spec, g.Render.Path)) {
			chosen = append(chosen, g)
		}
	}
	c = worker.LeasesForEngines(inv, chosen, gpu.ReadLinks(r, inv.GPUs))
	c.Quarantine = quarantine.AdmissionFile
	return c, nil
}

// leaseSettings returns the file with the wrapper's settings for the GPUs of Pool.
func leaseSettings(r host.Root, c oci.Config) (f resource.File, err error) {
	c.Missing = mark
	if c.Runtime, err = Runtime(r); err != nil {
		return f, fmt.Errorf("cannot lease GPUs to containers: %w", err)
	}
	data, err := json.Marshal(c)
	if err == nil {
		err = oci.CheckConfig(data)
	}
	if err != nil {
		return f, fmt.Errorf("cannot make the settings of leases: %w", err)
	}
	return resource.File{Path: oci.DefaultConfig, Data: append(data, '\n'), Mode: 0o600, Owner: "root"}, nil
}

// Runtime returns the path of the machine's own runc or crun.
func Runtime(r host.Root) (string, error) {
	for _, path := range oci.Runtimes() {
		if st, err := r.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", errors.New("neither runc nor crun is installed; install the engine first")
}

// Remove returns the resources that undo all changes for a wrapper outside its package:
// engines, leases, description, clocks and the state of the GPUs. program is the path of
// gpukit. On a unit, only engines change.
func Remove(ctx context.Context, h host.Host, program, wrapper string) (want []plan.Resource, err error) {
	unit, err := UnitOf(h.Root)
	if err != nil {
		return nil, err
	}
	if want, err = engines.RemoveAll(ctx, h, wrapper); err != nil || unit != "" {
		return want, err
	}
	shared, err := Share(h.Root)
	const why = "the package is being removed"
	want = append(append(want, shared...), cdi.Absent{Why: why}, worker.ClockReset{Program: program, Why: why})
	for _, dir := range []string{healthcheck.OutputDir, taskrecord.DefaultDir, fixedclocks.DefaultDir, clocksDir} {
		want = append(want, resource.Absent{Path: dir, Why: why, Tree: true})
	}
	return append(want, resource.AllAbsent(why, verdict.ReportPath, runend.Path, quarantine.AdmissionFile, quarantine.File,
		quarantine.EvidenceFile, gpureset.HistoryFile, notice.File, pool.ReportFile, role.GPUReport,
		role.UsageReport)...), err
}
