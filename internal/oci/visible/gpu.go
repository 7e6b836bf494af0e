// Package visible evaluates which of a unit's GPUs a container requests with its
// environment: with lists such as AMD_VISIBLE_DEVICES, and with GPU_COUNT. A container can
// choose less than its unit gives, never more. A request that is invalid or cannot be met
// is refused by name. The package reads no file and leases nothing.
package visible

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
)

// GPU is one GPU that the unit gives to tasks, as its CDI spec describes it.
type GPU struct {
	cdispec.Device          // under the first of the names
	names          []string // in the spec: its index, GPU-<id>, its PCI slot
	pci            string   // "" if not known
	nodes          []string // its device nodes, which identify it
}

// SingleGPUs returns the single GPUs of devices, each once, in the order of their spec. A
// spec describes each GPU under several names, and all of them under "all". Names with the
// same device nodes are one GPU.
func SingleGPUs(specs []*cdispec.Spec, allowed []cdispec.Device) (gpus []GPU, err error) {
	allowedNodes := make([][]string, len(allowed))
	for i, a := range allowed {
		if allowedNodes[i], err = a.Nodes(); err != nil {
			return nil, err
		}
	}
	for _, s := range specs {
		if !slices.ContainsFunc(allowed, func(a cdispec.Device) bool { return a.Spec == s }) {
			continue
		}
		for _, d := range s.Devices {
			nodes, err := d.Nodes()
			if err != nil {
				return nil, err
			}
			if d.Name == cdispec.All || len(nodes) == 0 {
				continue
			}
			// It is allowed under this name, under another name with the same nodes, or
			// with all.
			permitted := false
			for i, a := range allowed {
				permitted = permitted || a.Spec == s &&
					(a.Name == cdispec.All || a.Name == d.Name || slices.Equal(allowedNodes[i], nodes))
			}
			if !permitted {
				continue
			}
			same := slices.IndexFunc(gpus, func(g GPU) bool { return g.Spec == s && slices.Equal(g.nodes, nodes) })
			if same < 0 {
				gpus = append(gpus, GPU{Device: d, names: []string{d.Name}, pci: d.PCI, nodes: nodes})
				continue
			}
			gpus[same].names = append(gpus[same].names, d.Name)
			gpus[same].pci = cmp.Or(gpus[same].pci, d.PCI)
		}
	}
	return gpus, nil
}

// String formats the GPU for messages: "0 (GPU-1a2b, 0000:03:00.0)".
func (g GPU) String() string {
	others := slices.Clone(g.names[1:])
	if g.pci != "" && !slices.ContainsFunc(g.names, func(n string) bool { return pci.OfSlot(n) != "" }) {
		others = append(others, g.pci)
	}
	if len(others) == 0 {
		return g.names[0]
	}
	return g.names[0] + " (" + strings.Join(others, ", ") + ")"
}

// index returns the GPU's number. A GPU without a number is in no range.
func (g GPU) index() (uint64, bool) {
	for _, name := range g.names {
		if n, err := strconv.ParseUint(name, 10, 32); err == nil {
			return n, true
		}
	}
	return 0, false
}

// Label formats a device for tasks: its index on the unit, and its other names.
func Label(specs []*cdispec.Spec, d cdispec.Device) string {
	if gpus, err := SingleGPUs(specs, []cdispec.Device{d}); err == nil && len(gpus) == 1 {
		return gpus[0].String()
	}
	return d.Name
}

// IDs returns its names in the spec other than the index, such as GPU-<unique id>.
func (g GPU) IDs() []string { return slices.DeleteFunc(slices.Clone(g.names), isDecimal) }
