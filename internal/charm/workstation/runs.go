package workstation

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/runend"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpurun"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// idleService is how long the lease service stays without work. systemd starts it again.
const idleService = 10 * time.Minute

// NewRunServer returns the lease service of this machine. A unit of the charm has none,
// because its GPUs are its tasks'.
func NewRunServer(r host.Root, log io.Writer) (*gpurun.Server, error) {
	unit, err := UnitOf(r)
	if err == nil && unit != "" {
		err = OwnedError(unit)
	}
	if err != nil {
		return nil, err
	}
	m := &machineReader{root: r}
	ends := &runend.Writer{Root: r}
	ended := func(e gpurun.End) {
		err := ends.Add(runend.End{ID: e.Run, Title: e.Title, GPUs: e.GPUs, Started: e.Started, Ended: e.Ended,
			Exit: e.Exit})
		if err != nil {
			fmt.Fprintf(log, "cannot record the end of %s: %v\n", e.Run, err)
		}
	}
	return &gpurun.Server{Root: r, Machine: m.read, Groups: rungroup.Find, Log: log, Idle: idleService,
		Ended: ended}, nil
}

// OwnedError returns the error of a run on a unit.
func OwnedError(unit string) error {
	return fmt.Errorf("cannot lease GPUs to commands: this machine is the unit %s, and its GPUs are its tasks'", unit)
}

// machineReader reads the GPUs of a machine again if they may have changed.
type machineReader struct {
	root  host.Root
	state string
	last  gpurun.Machine
}

func (m *machineReader) read() (gpurun.Machine, error) {
	state := ""
	for _, p := range []string{cdi.Path, "/dev/dri", "/dev/kfd"} {
		if st, err := m.root.Stat(p); err == nil {
			state += fmt.Sprint(p, st.ModTime().UnixNano(), st.Size())
		}
	}
	if m.state == state && len(m.last.GPUs) > 0 {
		return m.last, nil
	}
	last, err := runMachine(m.root)
	if err == nil {
		m.last, m.state = last, state
	}
	return last, err
}

// runMachine returns the GPUs that runs can lease: those that containers can lease.
func runMachine(r host.Root) (m gpurun.Machine, err error) {
	inv, err := gpu.Discover(r)
	if err != nil {
		return m, err
	}
	c, err := Pool(r)
	if err != nil {
		return m, err
	}
	all := inv.GPUsOf(gpu.VendorWith(gpu.OwnSpec))
	m.Leases = lease.Leases{Dir: r.Path(c.Leases.Dir), GPUs: c.GPUNames(), Links: c.Leases.Links,
		Euid: uint32(os.Geteuid())}
	order := slices.SortedFunc(slices.Values(all), func(a, b gpu.GPU) int { return cmp.Compare(a.KFDNode, b.KFDNode) })
	for _, g := range all {
		devices := devicesOf(r, g)
		at := slices.Index(m.Leases.GPUs, g.Address())
		if at < 0 {
			m.Others = append(m.Others, devices...)
			continue
		}
		m.GPUs = append(m.GPUs, gpurun.GPU{Slot: g.Slot, Model: g.Model, Devices: devices,
			Order: slices.IndexFunc(order, func(o gpu.GPU) bool { return o.Address() == g.Address() }),
			Total: r.Path(g.Sysfs + "/mem_info_vram_total"), Used: r.Path(g.Sysfs + "/mem_info_vram_used")})
	}
	slices.SortFunc(m.GPUs, func(a, b gpurun.GPU) int {
		return cmp.Compare(slices.Index(m.Leases.GPUs, a.Address()), slices.Index(m.Leases.GPUs, b.Address()))
	})
	m.Leases.Label = func(i int) string { return fmt.Sprintf("%d (%s)", m.GPUs[i].Index, m.GPUs[i].Address()) }
	return m, nil
}

// devicesOf returns the numbers of a GPU's nodes, as sysfs has them.
func devicesOf(r host.Root, g gpu.GPU) (all []rungroup.Device) {
	for _, p := range g.Nodes.Paths() {
		text, err := r.ReadText("/sys/class/drm/" + path.Base(p) + "/dev")
		if err != nil {
			continue
		}
		if major, minor, err := host.ParseNumber(text); err == nil {
			all = append(all, rungroup.Device{Major: major, Minor: minor})
		}
	}
	return all
}
