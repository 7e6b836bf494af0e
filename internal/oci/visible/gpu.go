// Package visible evaluates which of a unit's GPUs a container requests with its
// environment: with lists such as AMD_VISIBLE_DEVICES, and with GPU_COUNT. A container can
// choose less than its unit gives, never more. A request that is invalid or cannot be met
// is refused by name. The package reads no file and leases nothing.
package visible

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
)

// GPU is one GPU that the unit gives to tasks, as its CDI spec describes it.
type GPU struct {
	cdispec.Device
	Nodes []cdispec.Node // its own device nodes
	// byName is set for a GPU that only containers get that name it, such as an integrated one
	// beside a card: the device all of its spec lacks it.
	byName bool
	// Set by Describe.
	names []string // all its names in the spec: its index, GPU-<id>, its PCI slot
	pci   string   // "" if not known
}

// Find returns the GPUs with these full CDI names, in their order. The name all means
// each GPU of its spec.
func Find(specs []*cdispec.Spec, names []string) ([]GPU, error) {
	devices, err := cdispec.Find(specs, names)
	if err != nil {
		return nil, err
	}
	gpus := make([]GPU, 0, len(devices))
	for _, d := range devices {
		if d.Name == cdispec.All {
			each, err := allOf(d)
			if err != nil {
				return nil, err
			}
			gpus = append(gpus, each...)
			continue
		}
		nodes, err := d.Nodes()
		if err != nil {
			return nil, err
		}
		gpus = append(gpus, GPU{Device: d, Nodes: nodes})
	}
	return gpus, nil
}

// allOf returns the GPUs of the spec with the device all, each under the first of its names.
func allOf(all cdispec.Device) (gpus []GPU, err error) {
	s := all.Spec
	has, err := all.Nodes()
	if err != nil {
		return nil, err
	}
	for _, d := range s.Devices {
		nodes, err := d.Nodes()
		if err != nil {
			return nil, err
		}
		if d.Name != cdispec.All && len(nodes) > 0 &&
			!slices.ContainsFunc(gpus, func(g GPU) bool { return sameNodes(g.Nodes, nodes) }) {
			gpus = append(gpus, GPU{Device: d, Nodes: nodes, byName: !hasPath(has, nodes[0].Path)})
		}
	}
	if len(gpus) == 0 {
		return nil, fmt.Errorf("cannot give the task a GPU: CDI spec %s describes no single GPU", s.File)
	}
	if !slices.ContainsFunc(gpus, func(g GPU) bool { return !g.byName }) { // all has other nodes than the GPUs
		for i := range gpus {
			gpus[i].byName = false
		}
	}
	return gpus, nil
}

func hasPath(nodes []cdispec.Node, path string) bool {
	return slices.ContainsFunc(nodes, func(n cdispec.Node) bool { return n.Path == path })
}

// sameNodes reports whether two devices of a spec are the same GPU.
func sameNodes(a, b []cdispec.Node) bool {
	return slices.EqualFunc(a, b, func(n, o cdispec.Node) bool { return n.Path == o.Path })
}

// Describe finds all names of GPUs in their specs. A spec describes a GPU under several
// names, with the same device nodes.
func Describe(gpus []GPU) error {
	var read []*cdispec.Spec
	for _, g := range gpus {
		if g.names != nil || slices.Contains(read, g.Spec) {
			continue
		}
		read = append(read, g.Spec)
		for _, d := range g.Spec.Devices {
			if err := addName(gpus, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// addName adds the name of a device to the GPUs that it describes.
func addName(gpus []GPU, d cdispec.Device) error {
	nodes, err := d.Nodes()
	if err != nil || d.Name == cdispec.All {
		return err
	}
	for i := range gpus {
		g := &gpus[i]
		if g.Spec == d.Spec && (d.Name == g.Name || len(nodes) > 0 && sameNodes(nodes, g.Nodes)) {
			g.names, g.pci = append(g.names, d.Name), cmp.Or(g.pci, d.PCI)
		}
	}
	return nil
}

// String formats the GPU for messages: "0 (GPU-1a2b, 0000:03:00.0)".
func (g GPU) String() string {
	if g.names == nil {
		return g.Name
	}
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

// IDs returns its names in the spec other than the index, such as GPU-<unique id>.
func (g GPU) IDs() []string { return slices.DeleteFunc(slices.Clone(g.names), isDecimal) }
