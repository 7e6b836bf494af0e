package deviceplugin

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

// machine holds the GPUs to offer, as one look found them.
type machine struct {
	all     []gpu.GPU // of the vendor
	kfd     gpu.KFD
	devices []device     // in the order of leases
	leases  lease.Leases // without Dir if nothing is leased; GPUs are always the devices
	states  []lease.State
	// replicas has the leases of pods that share GPUs. While one is held, so is the lease of
	// its GPU, by lease.SharingPods.
	replicas lease.Leases
	leftOut  []string // integrated GPUs beside a card, which stay so if the card goes missing
}

// look reads the GPUs that pods may have: those of the unit if the wrapper's config lists
// them, and otherwise all but integrated ones beside a card. It opens no GPU.
func look(r host.Root, config string, now func() time.Time, before machine) (m machine, err error) {
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
	m.all, m.kfd = all, inv.KFD
	gpus := offered(all, unit)
	out, err := excluded(r, unit)
	if err != nil {
		return m, err
	}
	described := cdiNames(r, vendor.Traits().Spec)
	for _, g := range gpus {
		d := deviceOf(r, g, inv)
		d.cdi = described[keyOf(g.Render.Path, g.Render.Major, g.Render.Minor)]
		if why := out[d.id()]; why != "" {
			d.exclusion = why
		}
		m.devices = append(m.devices, d)
		m.leases.GPUs = append(m.leases.GPUs, d.id())
	}
	m.leases.Links = weights(gpu.ReadLinks(r, gpus))
	if unit != nil && unit.Leases != nil {
		m.leases.Dir, m.leases.Euid = r.Path(cmp.Or(unit.Leases.Dir, lease.DefaultDir)), uint32(os.Geteuid())
		m.leases.Now, m.leases.Proc, m.leases.Cgroup = now, r.Path("/proc"), r.Path("/sys/fs/cgroup")
	}
	m.leases.Label = func(i int) string { return m.devices[i].label() }
	return m, m.readLeases()
}

// excluded returns why pods do not get GPUs, as texts that follow their names. If GPUs are
// leased, they are those that no task gets either: quarantined, or with too much memory in
// use. The memory of a pod without a lease would count as such.
func excluded(r host.Root, unit *oci.Config) (map[string]string, error) {
	out := map[string]string{}
	switch {
	case unit != nil && unit.Quarantine == "":
	case unit != nil && unit.Leases != nil:
		data, err := r.ReadFile(unit.Quarantine)
		if errors.Is(err, fs.ErrNotExist) { // tasks get all GPUs
			return out, nil
		}
		f, ok := admission.Decode(data)
		if err != nil || !ok {
			return nil, fmt.Errorf("cannot read which GPUs are quarantined: %w", cmp.Or(err, errDamaged))
		}
		for _, g := range f.GPUs {
			if g.Reason != "" {
				out[g.Name] = g.Reason
			}
		}
	default:
		record, err := quarantine.RecordFile.Read(r)
		if err != nil {
			return nil, err
		}
		for _, g := range record.NotInService() {
			out[g.Name] = g.Text()
		}
	}
	return out, nil
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

func deviceOf(r host.Root, g gpu.GPU, inv gpu.Inventory) device {
	d := device{Slot: g.Slot, nodes: append([]string{inv.KFD.Node.Path}, g.Nodes.Paths()...), numa: -1}
	if why := inv.Obstacle(g); why != "" {
		d.exclusion = "can't compute: " + why
	}
	text, _ := r.ReadText(path.Join(g.Sysfs, "numa_node")) // "" is no number
	if n, err := strconv.Atoi(text); err == nil {
		d.numa = max(n, -1)
	}
	d.style = gpu.Style(r, g)
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
