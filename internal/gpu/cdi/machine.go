package cdi

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/pci"
	"concourse-ci-machine/internal/base/units"
	"concourse-ci-machine/internal/gpu"
)

// Machine holds the AMD GPUs of a machine for containers.
type Machine struct {
	Spec *specs.Spec // nil if there is no GPU to describe
	Left []string    // GPUs left out, with the reason
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
	gpus := inv.Of(vendor)
	if len(gpus) == 0 {
		return m, nil
	}
	spec, undescribed, err := Spec(gpus, inv.KFD)
	m.Spec, m.Left = spec, append(m.Left, undescribed...)
	return m, err
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
