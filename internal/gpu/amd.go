package gpu

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/chips"
)

// AMD is the vendor of GPUs with ROCm.
const AMD Vendor = "amd"

const (
	amdDriver = "amdgpu"
	amdgpuIDs = "/usr/share/libdrm/amdgpu.ids"
)

type amd struct{}

func (amd) traits() *Traits { return &amdTraits }

var amdTraits = Traits{Label: "AMD", Runtime: "rocm", PCI: 0x1002, Module: amdDriver,
	Drivers: map[string]string{amdDriver: amdDriver},
	Kind:    wellknown.AMDKind, Spec: wellknown.AMDSpec, ByID: true, Visible: wellknown.AMDVisible,
	Features: []Feature{KFDNode, OwnSpec, Quarantine, Clocks, Engines, Kubernetes}}

// identify reads the name and the id in the GPU's own memory.
func (amd) identify(r files, g *GPU) {
	g.Model = clean(value(r, path.Join(g.Sysfs, "product_name")))
	g.UniqueID = parseUniqueID(value(r, path.Join(g.Sysfs, "unique_id")), 16)
}

// complete adds the values that KFD has, and partitions.
func (amd) complete(d *discovery) {
	for _, dev := range d.partitions {
		d.inv.addMinors(AMD, dev)
	}
	if len(d.inv.GPUsOf(AMD)) > 0 || len(d.partitions) > 0 {
		d.fromTopology(readTopology(d.root))
	}
	judgeChips(&d.inv)
}

// judgeChips marks the integrated GPUs if the machine has a card, also one that fails now. It
// also marks the GPUs of chips without a ROCm.
func judgeChips(inv *Inventory) {
	integrated := func(g GPU) bool { return chips.Find(g.DeviceID, g.GFX).Family == chips.APU }
	card := slices.ContainsFunc(inv.UnusableOf(AMD), isFailingCard)
	for _, g := range inv.GPUsOf(AMD) {
		card = card || !integrated(g)
	}
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		g.BesideCard = card && g.Vendor == AMD && integrated(*g)
		if gfx := cmp.Or(g.GFX, chips.Of(g.DeviceID).GFX); g.Vendor == AMD && chips.WithoutROCm(gfx) {
			g.Unsupported = "no ROCm of the table supports " + gfx
		}
	}
}

// isFailingCard reports whether an unusable GPU is a card that could compute here. Cards of
// virtual machines, of other containers, and those that no ROCm supports do not count.
func isFailingCard(l GPU) bool {
	c := chips.Of(l.DeviceID)
	switch l.Reason {
	case VFIO, OtherDriver, NotPassedThrough:
		return false
	case NoCompute: // the table lacks GCN 1
		return c.Family != chips.APU && c.Family != chips.Unknown && !chips.WithoutROCm(c.GFX)
	}
	return c.Family != chips.APU
}

func (amd) readNames(r host.Root, want names) {
	if want.missing(AMD) {
		want.fromFile(r, amdgpuIDs, want.scanAMDGPU)
	}
}

// scanAMDGPU reads a line of amdgpu.ids: "744C,\tCC,\tAMD Radeon RX 7900 XT".
func (n names) scanAMDGPU(line []byte) (more bool) {
	device, rest, _ := strings.Cut(string(line), ",")
	revision, name, found := strings.Cut(rest, ",")
	d, okD := hex(strings.TrimSpace(device), 16)
	v, okV := hex(strings.TrimSpace(revision), 8)
	if !found || !okD || !okV {
		return true
	}
	m := model{AMD, uint16(d), uint8(v)}
	if old, wanted := n[m]; wanted && old == "" {
		n[m] = clean(name)
	}
	return true
}

func (amd) model(device uint16, revision uint8) string { return chips.Name(device, revision) }
