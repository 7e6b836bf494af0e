package worker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// GPUs holds the decision on the unit's GPUs.
type GPUs struct {
	Vendor gpu.Vendor // "" if tasks get no GPU
	All    []gpu.GPU  // the vendor's GPUs of this unit, described in the CDI spec
	Chosen []gpu.GPU  // GPUs of the tasks; empty if a cause blocks them
	Causes []status.Cause

	// Missing has the GPUs of the tasks that this machine had and no longer has. The unit
	// treats them like quarantined GPUs. accept-gpus ends this.
	Missing []gpu.GPU
	named   []gpu.GPU // GPUs of gpu-device-ids, also missing ones, in order

	Requested bool           // the options require GPUs, whether the unit has some or not
	Warnings  []status.Cause // do not block the unit

	Quarantined []quarantine.GPU // GPUs of Chosen that no new container gets
	Tagged      []gpu.GPU        // GPUs of Chosen and Missing that the worker's tags describe
}

// Suffix returns the part of the ready status that names the GPUs.
func (g GPUs) Suffix() string {
	if len(g.Chosen) == 0 {
		return ""
	}
	return fmt.Sprintf(" (GPU: %dx %s%s)", len(g.Chosen), g.Vendor.Label(), g.quarantineText())
}

// assumed returns the vendor, or the first one while it is undecided.
func (g GPUs) assumed() gpu.Vendor { return cmp.Or(g.Vendor, gpu.Vendors()[0]) }

func (g *GPUs) cause(c status.Cause) { g.Causes = append(g.Causes, c) }

// DecideGPUs returns the GPUs that tasks get. If the options require GPUs that cannot
// compute, the causes name the problem and the command that helps. The unit gets no GPU
// then, and is not a GPU worker (D45).
func DecideGPUs(o Observed) GPUs {
	c, inv := o.Config.GPU, o.GPUs
	g := GPUs{Vendor: c.ComputeRuntime.Vendor()}
	if c.ComputeRuntime == config.RuntimeAuto {
		g.chooseVendor(inv)
	}
	g.Requested = g.Vendor != "" ||
		slices.ContainsFunc(g.Causes, func(c status.Cause) bool { return c.Kind == status.Blocked })
	if g.Vendor != "" {
		g.All = inv.GPUsOf(g.Vendor)
	}
	var problems []string
	if g.Vendor != "" || !g.Requested { // not for GPUs of two vendors
		g.named, problems = gpu.Select(o.Known.numbered(c.ComputeRuntime, g.All), c.DeviceIDs)
		g.Missing = slices.DeleteFunc(slices.Clone(g.named), func(one gpu.GPU) bool { return contains(g.All, one) })
	}
	if g.Vendor == "" {
		return g
	}
	if len(g.All) == 0 {
		explainNoGPU(&g, inv, o)
	}
	vendors[g.Vendor].explainUnit(&g, o)
	if len(g.All) == 0 {
		return g
	}
	for _, p := range problems {
		g.cause(status.Block("%s", p))
	}
	chosen := g.choose(inv, o)
	if len(g.Causes) > 0 {
		return g
	}
	g.Chosen = chosen
	vendors[g.Vendor].explainChosen(&g, o)
	if len(g.Causes) > 0 {
		g.Chosen = nil
	}
	return g
}

// choose returns the present GPUs of those that gpu-device-ids names. A missing GPU does not
// make the option invalid: reportMissing reports it, and tasks get the other GPUs. Without any
// the unit has only integrated GPUs beside a card that fails.
func (g *GPUs) choose(inv gpu.Inventory, o Observed) (chosen []gpu.GPU) {
	for _, one := range g.named {
		if contains(g.All, one) {
			chosen = append(chosen, one)
		}
	}
	switch {
	case len(chosen) > 0:
	case len(g.Missing) > 0:
		g.cause(status.Block("gpu-device-ids: its GPUs are missing: %s", strings.Join(addressesOf(g.Missing), ", ")).
			Explain("give them back, or name others"))
	case len(g.Causes) == 0:
		explainNoGPU(g, inv, o)
	}
	return chosen
}

// addressesOf returns the names of GPUs, in order.
func addressesOf(gpus []gpu.GPU) (names []string) {
	for _, one := range gpus {
		names = append(names, one.Address())
	}
	return names
}

// chooseVendor chooses the vendor for compute-runtime=auto.
func (g *GPUs) chooseVendor(inv gpu.Inventory) {
	var labels, runtimes []string
	for _, v := range gpu.Vendors() {
		if len(inv.GPUsOf(v)) > 0 {
			g.Vendor = v
			labels, runtimes = append(labels, v.Label()), append(runtimes, v.Traits().Runtime)
		}
	}
	switch {
	case len(labels) > 1:
		g.Vendor = ""
		g.cause(status.Block("compute-runtime: set it to %s; %s GPUs found", strings.Join(runtimes, " or "),
			strings.Join(labels, " and ")))
	case len(labels) == 1:
	// An unusable render node was passed through for tasks that compute through it.
	case slices.ContainsFunc(inv.UnusableOf(gpu.VendorWith(gpu.KFDNode)), Unusable):
		g.Vendor = gpu.VendorWith(gpu.KFDNode)
	default:
		g.cause(status.Warn("no GPU passed through"))
	}
}

// Unusable reports whether a GPU was passed through to this unit but its node cannot be
// used.
func Unusable(l gpu.GPU) bool {
	return l.Reason == gpu.Unreadable || l.Reason == gpu.WrongNumber || l.Reason == gpu.NotADevice
}

// explainNoGPU adds the causes for a missing GPU. Only the host has the id that LXD
// requires. The PCI address is in sysfs, which a container shares with its host.
func explainNoGPU(g *GPUs, inv gpu.Inventory, o Observed) {
	m := o.Machine
	left, name := inv.UnusableOf(g.Vendor), g.Vendor.Label()
	for _, l := range left {
		switch l.Reason {
		case gpu.Unreadable:
			g.cause(status.Block("tasks can't open %s GPU %s", name, l.PCI).Explain("%s", l.Detail).
				Fix(m.Manager.On(m.Manager.OpenGPU())))
		case gpu.WrongNumber, gpu.NotADevice:
			g.cause(status.Block("the device node of %s GPU %s is wrong", name, l.PCI).Explain("%s", l.Detail).
				Fix(m.Manager.On(m.Manager.Restart())))
		case gpu.Hangs:
			g.cause(status.Block("%s GPU %s does not count: it hangs", name, l.PCI).
				Run(explainHang(o.Facts.Commands())))
		case gpu.NoCompute:
			g.cause(status.Block("%s GPU %s does not count: %s", name, l.PCI, l.Detail))
		}
	}
	if len(g.Causes) > 0 {
		return
	}
	if !m.LXD() {
		explainNoGPUWithoutLXD(g, left)
		return
	}
	only := ""
	for _, other := range gpu.Vendors() {
		if n := len(inv.GPUsOf(other)); n > 0 && other != g.Vendor {
			only = fmt.Sprintf(" (only %d %s)", n, other.Label())
		}
	}
	i := slices.IndexFunc(left, func(l gpu.GPU) bool { return l.Reason == gpu.NotPassedThrough })
	c := status.Block("no %s GPU passed through%s", name, only)
	card := "id=ID"
	if i < 0 && slices.Contains([]wellknown.ManagerKind{"", wellknown.LXD}, m.Manager.Kind) {
		c = c.Explain("ID is the id of a card of vendor %04x in: lxc query /1.0/resources", g.Vendor.Traits().PCI)
	} else if i >= 0 {
		card = "pci=" + left[i].PCI
	}
	g.cause(c.Fix(m.Manager.On(m.Manager.PassGPU(card))))
}

// explainNoGPUWithoutLXD adds the causes for a missing GPU on a machine that is not an LXD
// container.
func explainNoGPUWithoutLXD(g *GPUs, left []gpu.GPU) {
	if len(left) == 0 {
		g.cause(status.Block("no %s GPU in this machine; set compute-runtime=none or move the unit",
			g.Vendor.Label()))
	}
	for _, l := range left {
		switch l.Reason {
		case gpu.NoDriver:
			g.cause(status.Block("%s GPU %s has no driver", g.Vendor.Label(), l.PCI).
				Run("sudo modprobe " + g.Vendor.Traits().Module))
		default:
			g.cause(status.Block("%s GPU %s does not count: %s", g.Vendor.Label(), l.PCI, l.Detail))
		}
	}
}

// contains compares GPUs by their render nodes: partitions of a GPU have equal addresses.
func contains(gpus []gpu.GPU, g gpu.GPU) bool {
	return slices.ContainsFunc(gpus, func(c gpu.GPU) bool { return c.Render.Path == g.Render.Path })
}
