package cdi

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// Machine holds the AMD GPUs of a machine for containers.
type Machine struct {
	Spec *specs.Spec // nil if there is no GPU to describe
	Left []string    // GPUs left out, also of the device all alone, with the reason
	KFD  gpu.KFD
}

// OfMachine describes all AMD GPUs that a machine may use, as Spec does.
func OfMachine(r host.Root) (m Machine, err error) {
	inv, err := gpu.Discover(r)
	if err != nil {
		return m, err
	}
	m.KFD = inv.KFD
	vendor := gpu.VendorWith(gpu.OwnSpec)
	for _, l := range inv.UnusableOf(vendor) {
		m.Left = append(m.Left, l.PCI+": "+l.Detail)
	}
	gpus := inv.GPUsOf(vendor)
	if len(gpus) == 0 {
		return m, nil
	}
	for _, g := range gpus {
		if g.BesideCard {
			m.Left = append(m.Left, g.PCI+" of "+Kind+"="+All+": "+gpu.BesideCardText)
		}
	}
	spec, undescribed, err := Spec(gpus, inv.KFD)
	m.Spec, m.Left = spec, append(m.Left, undescribed...)
	return m, err
}

// Select returns the description of some GPUs, all for no names. A name is a number, a
// unique id as GPU-<id>, or a PCI address, with or without amd.com/gpu=. Numbers stay with
// their GPUs. The device all has the named GPUs; with noAll it is left out.
func Select(s *specs.Spec, names []string, noAll bool) (*specs.Spec, error) {
	if len(names) == 0 && !noAll {
		return s, nil
	}
	list := List(s)
	var nodes []string // of the selected GPUs
	for _, name := range names {
		name = Kind + "=" + strings.TrimPrefix(name, Kind+"=")
		at := slices.IndexFunc(list, func(l Listed) bool { return l.Name == name || slices.Contains(l.Other, name) })
		if at < 0 {
			var known []string
			for _, l := range list {
				known = append(known, strings.TrimPrefix(l.Name, Kind+"="))
			}
			return nil, fmt.Errorf("cannot describe GPU %q: this machine has %s", strings.TrimPrefix(name, Kind+"="),
				strings.Join(known, ", "))
		}
		nodes = append(nodes, list[at].Nodes...)
	}
	selected := *s
	selected.Devices = nil
	named := specs.Device{Name: All}
	for _, d := range s.Devices {
		of := d.ContainerEdits.DeviceNodes
		if d.Name == All || len(nodes) > 0 && !slices.Contains(nodes, of[0].Path) {
			continue
		}
		selected.Devices = append(selected.Devices, d)
		if !slices.Contains(named.ContainerEdits.DeviceNodes, of[0]) { // a GPU has several names
			named.ContainerEdits.DeviceNodes = append(named.ContainerEdits.DeviceNodes, of...)
		}
	}
	if !noAll {
		selected.Devices = append(selected.Devices, named)
	}
	return &selected, nil
}

// InAll reports whether the device all of a description has a node.
func InAll(s *specs.Spec, node string) bool {
	return slices.ContainsFunc(s.Devices, func(d specs.Device) bool {
		return d.Name == All && slices.ContainsFunc(d.ContainerEdits.DeviceNodes,
			func(n *specs.DeviceNode) bool { return n.Path == node })
	})
}

// Listed describes one GPU of a description with all its names.
type Listed struct {
	Name  string   `json:"name"`            // amd.com/gpu=0
	Other []string `json:"other,omitempty"` // amd.com/gpu=GPU-<unique id>, amd.com/gpu=0000:03:00.0
	PCI   string   `json:"pci,omitempty"`
	Nodes []string `json:"nodes"` // of this GPU alone, without /dev/kfd
}

// List returns the GPUs of a description in its order; none for nil.
func List(s *specs.Spec) []Listed {
	list := []Listed{}
	if s == nil {
		return list
	}
	for _, d := range s.Devices {
		if d.Name == All {
			continue
		}
		one := Listed{Name: Kind + "=" + d.Name, PCI: pci.OfSlot(d.Name)}
		for _, n := range d.ContainerEdits.DeviceNodes {
			one.Nodes = append(one.Nodes, n.Path)
		}
		same := slices.IndexFunc(list, func(l Listed) bool { return slices.Equal(l.Nodes, one.Nodes) })
		if same >= 0 {
			list[same].Other = append(list[same].Other, one.Name)
			list[same].PCI = cmp.Or(list[same].PCI, one.PCI)
			continue
		}
		list = append(list, one)
	}
	return list
}

// WriteList writes the names as `amd-ctk cdi list` does: each GPU's render nodes below it,
// cards left out.
func WriteList(w io.Writer, list []Listed) error {
	text := fmt.Sprintf("Found %s\n", units.Count(len(list), "AMD GPU device"))
	if len(list) > 0 {
		text += Kind + "=" + All + "\n"
	}
	for _, l := range list {
		text += l.Name + "\n"
		for _, n := range l.Nodes {
			if !strings.HasPrefix(n, "/dev/dri/card") {
				text += "  " + n + "\n"
			}
		}
	}
	_, err := io.WriteString(w, text)
	return err
}
