package oci

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/oci/rawjson"
)

// unitGPU is one GPU that the unit gives to tasks, with all its names.
type unitGPU struct {
	chosen
	names []string // in the spec: its index, GPU-<id>
	pci   string   // "" when not known
	nodes string   // its device nodes, which tell GPUs apart
}

// unitGPUs are the single GPUs behind the unit's devices. A spec describes each
// under several names, and all of them under "all": names with the same device
// nodes are one GPU.
func unitGPUs(specs []cdiSpec, allowed []chosen) ([]unitGPU, error) {
	var gpus []unitGPU
	allowedNodes := make([]string, len(allowed))
	for i, a := range allowed {
		var err error
		if allowedNodes[i], err = nodesOf(a.spec, a.device.edits); err != nil {
			return nil, err
		}
	}
	for i := range specs {
		s := &specs[i]
		if !slices.ContainsFunc(allowed, func(c chosen) bool { return c.spec == s }) {
			continue
		}
		for _, d := range s.devices {
			nodes, err := nodesOf(s, d.edits)
			if err != nil {
				return nil, err
			}
			// Under this name, another of the same nodes, or that for all.
			permitted := func(i int) bool {
				a := allowed[i]
				return a.spec == s && (a.device.name == allDevices || a.device.name == d.name || allowedNodes[i] == nodes)
			}
			if d.name == allDevices || nodes == "" || !anyOf(len(allowed), permitted) {
				continue
			}
			same := slices.IndexFunc(gpus, func(g unitGPU) bool { return g.spec == s && g.nodes == nodes })
			if same < 0 {
				gpus = append(gpus, unitGPU{chosen: chosen{s, d}, names: []string{d.name}, pci: d.pci, nodes: nodes})
				continue
			}
			gpus[same].names = append(gpus[same].names, d.name)
			if gpus[same].pci == "" {
				gpus[same].pci = d.pci
			}
		}
	}
	return gpus, nil
}

// allDevices is the name that CDI generators give to all devices together.
const allDevices = "all"

func anyOf(n int, is func(int) bool) bool {
	for i := range n {
		if is(i) {
			return true
		}
	}
	return false
}

// nodesOf lists the paths of a device's own nodes.
func nodesOf(s *cdiSpec, edits rawjson.Value) (string, error) {
	list, err := edits.Of("deviceNodes", rawjson.Array)
	if err != nil {
		return "", fmt.Errorf("cannot use CDI spec %s: %w", s.file, err)
	}
	var paths []string
	for n := range list.Elements() {
		path, err := n.StringOf("path")
		if err != nil {
			return "", fmt.Errorf("cannot use CDI spec %s: %w", s.file, err)
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return strings.Join(paths, "\n"), nil
}

// String is the GPU as messages name it: "0 (GPU-1a2b, 0000:03:00.0)".
func (g unitGPU) String() string {
	others := slices.Clone(g.names[1:])
	if g.pci != "" {
		others = append(others, g.pci)
	}
	if len(others) == 0 {
		return g.names[0]
	}
	return g.names[0] + " (" + strings.Join(others, ", ") + ")"
}

// index is the GPU's number; no GPU without one is part of a range.
func (g unitGPU) index() (uint64, bool) {
	for _, name := range g.names {
		if n, err := strconv.ParseUint(name, 10, 32); err == nil {
			return n, true
		}
	}
	return 0, false
}
