// Package cdi describes the unit's AMD GPUs in the Container Device Interface (CDI), so
// that container tools have names for them. It never assigns GPUs to tasks, opens no
// device, and never writes a node without its number.
package cdi

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

const (
	// Path is the path of the description. Other files below /etc/cdi do not belong to the
	// charm.
	Path = wellknown.AMDSpec
	// Kind is the vendor and class of every device in it.
	Kind = wellknown.AMDKind
	// All is the name of the device with all GPUs but integrated ones beside a card.
	All = "all"
)

// Resource returns the file that describes gpus: devices "0" to "N-1" in the given order,
// "GPU-<unique id>" and the slot if the GPU has them, and "all". left lists the GPUs that
// cannot be described, with reasons. If none can be described, the file must be absent.
func Resource(gpus []gpu.GPU, kfd gpu.KFD) (r plan.Resource, left []string, err error) {
	spec, left, err := Spec(gpus, kfd)
	if err != nil {
		return nil, left, err
	}
	if spec == nil {
		return resource.Absent{Path: Path, Why: "this machine has no AMD GPU to describe"}, left, nil
	}
	r, err = File(spec)
	return r, left, err
}

// File returns the file at Path with a description.
func File(spec *specs.Spec) (plan.Resource, error) {
	data, err := json.Marshal(spec) // compact: the wrapper reads it for every container
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", Path, err)
	}
	return resource.File{Path: Path, Data: append(data, '\n'), Mode: 0o644}, nil
}

// Spec returns the description, nil if no GPU can be described. A GPU that is left out
// leaves a gap, so that a number never moves to another GPU. It has no annotations, because
// they require CDI 0.6.0, which Podman 4.3 does not read.
func Spec(gpus []gpu.GPU, kfd gpu.KFD) (spec *specs.Spec, left []string, err error) {
	spec = &specs.Spec{Kind: Kind}
	var all []*specs.DeviceNode
	named := map[string]int{}
	for _, g := range gpus {
		named[g.ID()]++
		named[g.Address()]++
	}
	var byID, bySlot []specs.Device
	for i, g := range gpus {
		nodes, reason := nodesOf(g)
		if reason != "" {
			left = append(left, fmt.Sprintf("%s: %s", g.PCI, reason))
			continue
		}
		edits := specs.ContainerEdits{DeviceNodes: nodes}
		spec.Devices = append(spec.Devices, specs.Device{Name: strconv.Itoa(i), ContainerEdits: edits})
		// A name that two GPUs claim is left out.
		if id := g.ID(); id != "" && named[id] == 1 {
			byID = append(byID, specs.Device{Name: id, ContainerEdits: edits})
		}
		if slot := g.Address(); g.PCI != "" && named[slot] == 1 {
			bySlot = append(bySlot, specs.Device{Name: slot, ContainerEdits: edits})
		}
		if !g.BesideCard {
			all = append(all, nodes...)
		}
	}
	if len(spec.Devices) == 0 {
		return nil, left, nil
	}
	spec.Devices = slices.Concat(spec.Devices, byID, bySlot)
	if len(all) > 0 {
		spec.Devices = append(spec.Devices, specs.Device{Name: All, ContainerEdits: specs.ContainerEdits{DeviceNodes: all}})
	}
	// /dev/kfd belongs to no single GPU. At the top level it is part of every device, and a
	// container gets it only once.
	switch n, ok := node(kfd.Node); {
	case !kfd.Usable():
		left = append(left, "/dev/kfd: "+kfd.Text())
	case !ok:
		left = append(left, noNumber(kfd.Node))
	default:
		spec.ContainerEdits.DeviceNodes = []*specs.DeviceNode{n}
	}
	if spec.Version, err = specs.MinimumRequiredVersion(spec); err != nil {
		return nil, left, fmt.Errorf("cannot find the CDI version of %s: %w", Path, err)
	}
	if err := validate(spec); err != nil {
		return nil, left, fmt.Errorf("cannot describe GPUs in %s: %w", Path, err)
	}
	return spec, left, nil
}

// nodesOf returns the nodes of one GPU, or the reason why one is missing.
func nodesOf(g gpu.GPU) (nodes []*specs.DeviceNode, reason string) {
	render, ok := node(g.Render)
	if !ok {
		return nil, noNumber(g.Render)
	}
	nodes = append(nodes, render)
	if g.Card != nil {
		card, ok := node(*g.Card)
		if !ok {
			return nil, noNumber(*g.Card)
		}
		nodes = append(nodes, card)
	}
	return nodes, ""
}

func noNumber(n host.Node) string {
	if n.Path == "" {
		return "it has no render node"
	}
	return n.Path + ": its device number is not known"
}

// node describes a character device. No driver has major 0: the number of such a node was
// not read, and a container would get a dead device.
//
// Each user of the container may open it, as with the wrapper. An image has no group with the
// number of the machine's group render. additionalGids would require CDI 0.7.0, and Podman
// 4.3 does not read that.
func node(n host.Node) (*specs.DeviceNode, bool) {
	if n.Path == "" || n.Major == 0 {
		return nil, false
	}
	mode := fs.FileMode(0o666)
	return &specs.DeviceNode{Path: n.Path, Type: "c", Major: int64(n.Major), Minor: int64(n.Minor),
		FileMode: &mode, Permissions: "rw"}, true
}

// validate applies the CDI library's own rules, as container tools do when they read the
// file.
func validate(spec *specs.Spec) error {
	if err := specs.ValidateVersion(spec); err != nil {
		return err
	}
	if err := (&cdilib.ContainerEdits{ContainerEdits: &spec.ContainerEdits}).Validate(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, d := range spec.Devices {
		if err := parser.ValidateDeviceName(d.Name); err != nil {
			return err
		}
		if seen[d.Name] {
			return fmt.Errorf("two devices have the name %q", d.Name)
		}
		seen[d.Name] = true
		if err := (&cdilib.ContainerEdits{ContainerEdits: &d.ContainerEdits}).Validate(); err != nil {
			return fmt.Errorf("device %s: %w", d.Name, err)
		}
	}
	return nil
}

// Nodes returns the device nodes of a task that gets only this GPU, which has this index,
// according to Path: /dev/kfd first. They have the machine's modes and groups, which count
// if runc can't make nodes. It fails if the description is older than the GPU's place.
func Nodes(r host.Root, index int, g gpu.GPU) ([]*specs.DeviceNode, error) {
	data, err := r.ReadFile(Path)
	if err != nil {
		return nil, fmt.Errorf("cannot read which nodes GPU %d has: %w", index, err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, fmt.Errorf("cannot decode %s: %w", Path, err)
	}
	for _, d := range spec.Devices {
		nodes := d.ContainerEdits.DeviceNodes
		is := func(n *specs.DeviceNode) bool {
			return n != nil && n.Path == g.Render.Path && n.Major == int64(g.Render.Major) &&
				n.Minor == int64(g.Render.Minor)
		}
		if d.Name == strconv.Itoa(index) && slices.ContainsFunc(nodes, is) {
			all := append(slices.Clone(spec.ContainerEdits.DeviceNodes), nodes...)
			return all, setOwners(r, all)
		}
	}
	return nil, fmt.Errorf("cannot find GPU %d with its node %s in %s: it is described again within a minute", index,
		g.Render.Path, Path)
}

// setOwners sets the modes and owners that nodes have on the machine.
func setOwners(r host.Root, nodes []*specs.DeviceNode) error {
	for _, n := range nodes {
		if n == nil {
			return fmt.Errorf("cannot use %s: a device node is null", Path)
		}
		live, err := r.Node(n.Path)
		if err != nil {
			return fmt.Errorf("cannot use %s: %w", Path, err)
		}
		n.FileMode, n.UID, n.GID = &live.Mode, &live.UID, &live.GID
	}
	return nil
}
