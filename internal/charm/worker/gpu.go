package worker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/machine"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/pool/quarantine"
)

// videoGID is the group video, which has this number on every Debian and
// Ubuntu; the number of the group render differs from machine to machine.
const videoGID = 44

// GPUs is the decision on the unit's GPUs.
type GPUs struct {
	Vendor gpu.Vendor // "" when tasks get none
	All    []gpu.GPU  // the vendor's GPUs of this unit, described in the CDI spec
	Chosen []gpu.GPU  // those of them that tasks get; empty when a cause keeps them from working
	Causes []status.Cause

	Asked   bool           // the unit is to be a worker with GPUs, whether it has any or not
	Remarks []status.Cause // keep nothing from working

	Withheld []quarantine.GPU // those of Chosen that no new container gets
	Tagged   []gpu.GPU        // those of Chosen that the worker's tags are of
}

// Suffix is the part of the ready status that names the GPUs.
func (g GPUs) Suffix() string {
	if len(g.Chosen) == 0 {
		return ""
	}
	return fmt.Sprintf(" (GPU: %dx %s%s)", len(g.Chosen), g.Vendor.Label(), g.withheldText())
}

func (g *GPUs) block(format string, args ...any) {
	g.Causes = append(g.Causes, status.Cause{Kind: status.Blocked, Text: fmt.Sprintf(format, args...)})
}

// DecideGPUs returns which GPUs tasks get. known lists the GPUs that the unit had, and nvidia
// the devices that nvidia-ctk described, nil without any. A unit that was asked for GPUs and
// can't compute on them says why and what to run, gets none, and is no GPU
// worker (D45).
func DecideGPUs(c config.Config, inv gpu.Inventory, known KnownGPUs, m machine.Machine, nvidia []string) GPUs {
	g := GPUs{Vendor: gpu.OfRuntime(c.ComputeRuntime)}
	if c.ComputeRuntime == "auto" {
		g.chooseVendor(inv)
	}
	g.Asked = g.Vendor != "" || slices.ContainsFunc(g.Causes, func(c status.Cause) bool { return c.Kind == status.Blocked })
	if g.Vendor == "" {
		return g
	}
	g.All = inv.Of(g.Vendor)
	if len(g.All) == 0 {
		explainNoGPU(&g, inv, m)
	}
	if g.Vendor == gpu.AMD {
		explainKFD(&g, inv.KFD, m)
	}
	if len(g.All) == 0 {
		return g
	}
	chosen := g.choose(known.numbered(c.ComputeRuntime, g.All), c.GPUDeviceIDs)
	if len(g.Causes) > 0 {
		return g
	}
	g.Chosen = chosen
	if g.Vendor == gpu.AMD {
		explainGroups(&g, inv.KFD, m)
	} else {
		explainNVIDIA(&g, nvidia)
	}
	if len(g.Causes) > 0 {
		g.Chosen = nil
	}
	return g
}

// choose returns the GPUs that gpu-device-ids names. A GPU that went away is missing and does
// not make the option wrong: miss reports it, and tasks get the others.
func (g *GPUs) choose(numbered []gpu.GPU, ids string) (chosen []gpu.GPU) {
	named, problems := gpu.Select(numbered, ids)
	for _, p := range problems {
		g.block("%s", p)
	}
	var missing []string
	for _, one := range named {
		if contains(g.All, one) {
			chosen = append(chosen, one)
		} else {
			missing = append(missing, gpu.Slot(one.PCI, one.Partition))
		}
	}
	if len(chosen) == 0 && len(missing) > 0 {
		g.block("gpu-device-ids: the GPUs that it names are missing: %s; give them back, or name others", strings.Join(missing, ", "))
	}
	return chosen
}

// chooseVendor is compute-runtime=auto.
func (g *GPUs) chooseVendor(inv gpu.Inventory) {
	var labels, runtimes []string
	for _, v := range gpu.Vendors() {
		if len(inv.Of(v)) > 0 {
			g.Vendor = v
			labels, runtimes = append(labels, v.Label()), append(runtimes, v.Traits().Runtime)
		}
	}
	switch {
	case len(labels) > 1:
		g.Vendor = ""
		g.block("compute-runtime: auto can't choose, %s GPUs are passed through; set it to %s", strings.Join(labels, " and "), strings.Join(runtimes, " or "))
	case len(labels) == 1:
	case slices.ContainsFunc(inv.UnusableOf(gpu.AMD), GivenAndUnusable):
		g.Vendor = gpu.AMD
	default:
		g.Causes = append(g.Causes, status.Cause{Kind: status.Active, Text: "no GPU passed through"})
	}
}

// GivenAndUnusable reports whether a GPU does not count though somebody gave it to this
// unit: its node is here and can't be used.
func GivenAndUnusable(l gpu.Unusable) bool {
	return l.Reason == gpu.Unreadable || l.Reason == gpu.WrongNumber || l.Reason == gpu.NotADevice
}

// explainNoGPU says what stands between the unit and a GPU. The id that
// LXD wants is the host's to know; the PCI address stands in sysfs, which a
// container shares with its host.
func explainNoGPU(g *GPUs, inv gpu.Inventory, m machine.Machine) {
	left, name := inv.UnusableOf(g.Vendor), g.Vendor.Label()
	for _, l := range left {
		switch l.Reason {
		case gpu.Unreadable:
			g.block("%s GPU %s: %s — on the LXD host run: %s", name, l.PCI, l.Detail, oci.OpenGPU(m.Hostname))
		case gpu.WrongNumber, gpu.NotADevice:
			g.block("%s GPU %s: %s — on the LXD host run: lxc restart %s", name, l.PCI, l.Detail, m.Hostname)
		case gpu.Hangs:
			g.block("%s GPU %s does not count: %s", name, l.PCI, l.Detail)
		}
	}
	if len(g.Causes) > 0 {
		return
	}
	if !m.LXD() {
		explainMetal(g, left)
		return
	}
	only := ""
	for _, other := range gpu.Vendors() {
		if n := len(inv.Of(other)); n > 0 && other != g.Vendor {
			only = fmt.Sprintf(" (only %d %s)", n, other.Label())
		}
	}
	i := slices.IndexFunc(left, func(l gpu.Unusable) bool { return l.Reason == gpu.NotPassedThrough })
	if i < 0 {
		g.block("no %s GPU passed through%s — on the LXD host run: lxc config device add %s gpu0 gpu id=ID gid=%d, with the id of a card of vendor %04x in: lxc query /1.0/resources",
			name, only, m.Hostname, videoGID, g.Vendor.Traits().PCI)
		return
	}
	g.block("no %s GPU passed through%s — on the LXD host run: lxc config device add %s gpu0 gpu pci=%s gid=%d (or id=ID gid=%d, with the id of that card in: lxc query /1.0/resources)",
		name, only, m.Hostname, left[i].PCI, videoGID, videoGID)
}

// explainMetal is explainNoGPU where no LXD host is in between.
func explainMetal(g *GPUs, left []gpu.Unusable) {
	if len(left) == 0 {
		g.block("no %s GPU in this machine; set compute-runtime=none or move the unit", g.Vendor.Label())
	}
	for _, l := range left {
		switch l.Reason {
		case gpu.NoDriver:
			g.block("%s GPU %s has no driver — run: sudo modprobe %s", g.Vendor.Label(), l.PCI, g.Vendor.Traits().Module)
		default:
			g.block("%s GPU %s does not count: %s", g.Vendor.Label(), l.PCI, l.Detail)
		}
	}
}

func explainKFD(g *GPUs, kfd gpu.KFD, m machine.Machine) {
	switch {
	case kfd.Usable():
	case !m.LXD():
		g.block("%s — run: sudo modprobe amdgpu, and check that the kernel has CONFIG_HSA_AMD", kfd.Text())
	case kfd.State == gpu.KFDAbsent:
		if m.NoProfiles {
			g.block("no /dev/kfd, as Juju 4 has no LXD profiles of charms — run: lxc config device add %s "+amd.KFDDevice+" (or scripts/pass-gpu.sh of the charm's project, which passes it with the GPU)", m.Hostname)
			return
		}
		g.block("no /dev/kfd — run: lxc config device add %s "+amd.KFDDevice, m.Hostname)
	case kfd.State == gpu.KFDWrongMajor:
		g.block("%s — on the LXD host run: lxc restart %s", kfd.Text(), m.Hostname)
	default:
		g.block("%s — on the LXD host run: %s", kfd.Text(), oci.OpenKFD(m.Hostname, m.KFDVerb()))
	}
}

// explainGroups finds nodes that unprivileged tasks of an LXD unit could not
// open: LXD gives them to root:root unless told otherwise, and the user
// namespace of a Concourse task has no number for the group root. Elsewhere
// the wrapper makes the task a node of its own, which an unprivileged LXD
// container may not.
func explainGroups(g *GPUs, kfd gpu.KFD, m machine.Machine) {
	if !m.LXD() || m.MakesNodes {
		return
	}
	closed := func(n host.Node) bool { return n.GID == 0 && n.Mode&0o006 != 0o006 }
	for _, of := range g.Chosen {
		if closed(of.Render) {
			g.block("tasks can't open %s, its group is root — on the LXD host run: %s", of.Render.Path, oci.OpenGPU(m.Hostname))
		}
	}
	if closed(kfd.Node) {
		g.block("tasks can't open /dev/kfd, its group is root — on the LXD host run: %s", oci.OpenKFD(m.Hostname, m.KFDVerb()))
	}
}

// nvidiaGenerate is how people have NVIDIA's own tool describe its GPUs.
const nvidiaGenerate = "sudo nvidia-ctk cdi generate --format=json --output=" + gpu.NVIDIASpec

// explainNVIDIA checks that the chosen GPUs are described: libraries and
// device nodes of NVIDIA's driver are known to its own tool alone.
func explainNVIDIA(g *GPUs, described []string) {
	if described == nil {
		g.block("no %s — on the unit install nvidia-container-toolkit and run: %s", gpu.NVIDIASpec, nvidiaGenerate)
		return
	}
	for i, of := range g.All {
		if contains(g.Chosen, of) && !slices.Contains(described, strconv.Itoa(i)) {
			g.block("GPU %d is not in %s — on the unit run: %s", i, gpu.NVIDIASpec, nvidiaGenerate)
		}
	}
}

// contains tells GPUs apart by their render nodes: partitions share all else.
func contains(gpus []gpu.GPU, g gpu.GPU) bool {
	return slices.ContainsFunc(gpus, func(c gpu.GPU) bool { return c.Render.Path == g.Render.Path })
}
