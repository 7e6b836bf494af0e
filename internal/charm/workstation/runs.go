package workstation

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
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
// because its GPUs are its tasks'. program is the path of gpukit.
func NewRunServer(h host.Host, program string, log io.Writer) (*gpurun.Server, error) {
	r := h.Root
	unit, err := UnitOf(r)
	if err == nil && unit != "" {
		err = OwnedError(unit)
	}
	if err != nil {
		return nil, err
	}
	m := &machineReader{root: r}
	ends := &runend.Writer{Root: r}
	c := clocks{h, program}
	ended := func(e gpurun.End) {
		end := runend.End{ID: e.Run, Title: e.Title, GPUs: e.GPUs, Started: e.Started, Ended: e.Ended, Exit: e.Exit}
		end.Clocks, end.ClocksInvalid = c.of(e.Run, e.GPUs)
		err := ends.Add(end)
		if err != nil {
			fmt.Fprintf(log, "cannot record the end of %s: %v\n", e.Run, err)
		}
	}
	return &gpurun.Server{Root: r, Machine: m.read, Groups: (&rungroup.Finder{}).Find, Log: log, Idle: idleService,
		Ended: ended, Clocks: c}, nil
}

// OwnedError returns the error of a run on a unit.
func OwnedError(unit string) error {
	return fmt.Errorf("cannot lease GPUs to commands: this machine is the unit %s, and its GPUs are its tasks'", unit)
}

// CheckGPU returns an error if the machine shows no AMD GPU, not even an unusable one.
func CheckGPU(r host.Root) error {
	vendor := gpu.VendorWith(gpu.OwnSpec)
	inv, err := gpu.Discover(r)
	if err != nil || len(inv.GPUsOf(vendor))+len(inv.UnusableOf(vendor)) > 0 {
		return nil // the caller has another error
	}
	return errors.New("cannot lease GPUs: this machine has no AMD GPU; see " + wellknown.GPUKit + " gpu list")
}

// machineReader reads the GPUs of a machine again if they may have changed.
type machineReader struct {
	root  host.Root
	mu    sync.Mutex
	state string
	last  gpurun.Machine
}

func (m *machineReader) read() (gpurun.Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	var leased []rungroup.Device
	order := slices.SortedFunc(slices.Values(all), func(a, b gpu.GPU) int { return cmp.Compare(a.KFDNode, b.KFDNode) })
	for _, g := range all {
		if !slices.Contains(m.Leases.GPUs, g.Address()) {
			continue
		}
		devices := devicesOf(g)
		leased = append(leased, devices...)
		m.GPUs = append(m.GPUs, gpurun.GPU{Slot: g.Slot, Model: g.Model, Devices: devices,
			Order: slices.IndexFunc(order, func(o gpu.GPU) bool { return o.Address() == g.Address() }),
			Total: r.Path(g.Sysfs + "/mem_info_vram_total"), Used: r.Path(g.Sysfs + "/mem_info_vram_used"),
			Clocks: ClockSetting(r, c, g.Address())})
	}
	for _, n := range inv.Minors[gpu.VendorWith(gpu.OwnSpec)] {
		if d := (rungroup.Device{Major: drmMajor, Minor: n}); !slices.Contains(leased, d) {
			m.Others = append(m.Others, d)
		}
	}
	slices.SortFunc(m.GPUs, func(a, b gpurun.GPU) int {
		return cmp.Compare(slices.Index(m.Leases.GPUs, a.Address()), slices.Index(m.Leases.GPUs, b.Address()))
	})
	m.Leases.Label = func(i int) string { return fmt.Sprintf("%d (%s)", m.GPUs[i].Index, m.GPUs[i].Address()) }
	return m, nil
}

// drmMajor is the number of all DRM nodes (DRM_MAJOR).
const drmMajor = 226

// devicesOf returns the numbers of a GPU's nodes.
func devicesOf(g gpu.GPU) []rungroup.Device {
	all := []rungroup.Device{{Major: g.Render.Major, Minor: g.Render.Minor}}
	if g.Card != nil {
		all = append(all, rungroup.Device{Major: g.Card.Major, Minor: g.Card.Minor})
	}
	return all
}
