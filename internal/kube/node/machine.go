package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/wrapperfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Machine holds the GPUs to offer, as one look found them.
type Machine struct {
	Devices []Device     // in the order of leases
	GPUs    []gpu.GPU    // of the devices
	KFD     gpu.KFD      // all GPUs share it
	Leases  lease.Leases // without Dir if GPUs are shared; GPUs are always the devices
	States  []lease.State
	leftOut []string // integrated GPUs beside a card, which stay so if the card goes missing
}

// Look reads the GPUs that pods may have: those of the unit if the wrapper's config lists
// them, and otherwise all but integrated ones beside a card. It opens no GPU.
func Look(r host.Root, config string, now func() time.Time, before Machine) (m Machine, err error) {
	inv, err := gpu.Discover(r)
	if err != nil {
		return m, err
	}
	unit, err := readConfig(r, config)
	if err != nil {
		return m, err
	}
	vendor := gpu.VendorWith(gpu.Kubernetes)
	all := inv.GPUsOf(vendor)
	m.leftOut = before.leftOut
	for i := range all {
		name := all[i].Address()
		if all[i].BesideCard && !slices.Contains(m.leftOut, name) {
			m.leftOut = append(m.leftOut, name)
		}
		all[i].BesideCard = slices.Contains(m.leftOut, name)
	}
	m.GPUs, m.KFD = offered(all, unit), inv.KFD
	out, err := excluded(r, unit)
	if err != nil {
		return m, err
	}
	described := cdiNames(r, vendor.Traits().Spec)
	for _, g := range m.GPUs {
		d := deviceOf(r, g, inv)
		d.CDI = described[keyOf(g.Render.Path, g.Render.Major, g.Render.Minor)]
		if why, is := out[d.Address()]; is {
			d.Exclusion, d.Cause, d.Since = why.text, why.cause, why.since
		}
		m.Devices = append(m.Devices, d)
		m.Leases.GPUs = append(m.Leases.GPUs, d.Address())
	}
	m.Leases.Links = weights(gpu.ReadLinks(r, m.GPUs))
	m.Leases.Euid, m.Leases.Now = uint32(os.Geteuid()), now
	m.Leases.Proc, m.Leases.Cgroup = r.Path("/proc"), r.Path("/sys/fs/cgroup")
	if unit != nil && unit.Leases != nil {
		m.Leases.Dir = r.Path(cmp.Or(unit.Leases.Dir, lease.DefaultDir))
	}
	m.Leases.Label = func(i int) string { return m.Devices[i].Label() }
	return m, m.ReadLeases()
}

// exclusion is why pods do not get a GPU. Its members are as of Device.
type exclusion struct {
	text, cause string
	since       time.Time
}

// excluded returns why pods do not get GPUs. If GPUs are leased, they are those that no task
// gets either: quarantined, or with too much memory in use. The memory of a pod without a lease
// would count as such.
func excluded(r host.Root, unit *oci.Config) (map[string]exclusion, error) {
	out := map[string]exclusion{}
	if unit != nil && unit.Quarantine == "" {
		return out, nil
	}
	record, err := quarantine.RecordFile.Read(r)
	if err == nil {
		for _, g := range record.NotInService() {
			out[g.Name] = exclusion{g.Text(), strings.ReplaceAll(g.ShortReason(), " ", "_"), g.Since}
			if g.QuarantinedSince != nil {
				out[g.Name] = exclusion{g.Text(), out[g.Name].cause, *g.QuarantinedSince}
			}
		}
	}
	if unit == nil || unit.Leases == nil {
		return out, err
	}
	data, err := r.ReadFile(unit.Quarantine)
	if errors.Is(err, fs.ErrNotExist) { // tasks get all GPUs
		return nil, nil
	}
	f, ok := admission.Decode(data)
	if err != nil || !ok {
		return nil, fmt.Errorf("cannot read which GPUs are quarantined: %w", cmp.Or(err, errDamaged))
	}
	listed := map[string]exclusion{}
	for _, g := range f.GPUs {
		listed[g.Name] = exclusion{g.Reason, out[g.Name].cause, out[g.Name].since}
	}
	return listed, nil
}

var errDamaged = errors.New("the file is damaged, and is written again within a minute")

// readConfig returns the wrapper's config, and nil if this machine has none.
func readConfig(r host.Root, file string) (*oci.Config, error) {
	if file == "" || !r.Exists(file) {
		return nil, nil
	}
	config, err := wrapperfile.At(file).Read(r)
	if err != nil {
		return nil, fmt.Errorf("cannot read which GPUs are the unit's: %w", err)
	}
	return &config, nil
}

// offered returns the GPUs of the unit, in the order of its leases.
func offered(all []gpu.GPU, unit *oci.Config) (of []gpu.GPU) {
	if unit == nil {
		return gpu.ForTasks(all)
	}
	for _, g := range all {
		if slices.ContainsFunc(unit.GPUs, func(of oci.GPU) bool { return of.Name == g.Address() }) {
			of = append(of, g)
		}
	}
	return of
}

func deviceOf(r host.Root, g gpu.GPU, inv gpu.Inventory) Device {
	d := Device{Slot: g.Slot, Paths: append([]string{inv.KFD.Node.Path}, g.Nodes.Paths()...), NUMA: -1}
	if why := inv.Obstacle(g); why != "" {
		d.Exclusion = "can't compute: " + why
	}
	text, _ := r.ReadText(path.Join(g.Sysfs, "numa_node")) // "" is no number
	if n, err := strconv.Atoi(text); err == nil {
		d.NUMA = max(n, -1)
	}
	d.Style = gpu.Style(r, g)
	return d
}

// cdiNames returns the GPUs' names in a CDI spec by their render nodes. It
// prefers the unique id, which stays with a GPU, to the index. The spec is optional, so an
// unreadable one has no names.
func cdiNames(r host.Root, file string) map[host.Node]string {
	of := map[host.Node]string{}
	data, err := r.ReadFile(file)
	if err != nil {
		return of
	}
	spec, err := cdispec.Decode(file, data)
	if err != nil {
		return of
	}
	for _, d := range spec.Devices {
		edits, err := cdispec.Merge([]cdispec.Device{d})
		if err != nil || d.Name == cdispec.All {
			continue
		}
		for _, n := range edits.Nodes {
			at := keyOf(n.Path, uint32(n.Major), uint32(n.Minor))
			if of[at] == "" || strings.HasPrefix(d.Name, "GPU-") {
				of[at] = spec.Kind + "=" + d.Name
			}
		}
	}
	return of
}

func keyOf(path string, major, minor uint32) host.Node {
	return host.Node{Path: path, Major: major, Minor: minor}
}

// weights converts links to the weights of leases.
func weights(links [][]gpu.Link) [][]int {
	of := make([][]int, len(links))
	for i, row := range links {
		of[i] = make([]int, len(row))
		for j, l := range row {
			if i != j {
				of[i][j] = lease.LinkWeight(l.Same, l.Hops, l.NUMA)
			}
		}
	}
	return of
}
