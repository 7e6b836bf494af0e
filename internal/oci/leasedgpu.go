package oci

import (
	"fmt"
	"path/filepath"
	"slices"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/gpu/cdispec"
)

// LeasedGPU is the name under which one GPU is leased, or withheld. It has to stay with
// the GPU whatever index that has in a CDI spec: its PCI address and partition.
type LeasedGPU struct {
	Name string `json:"name"`
	// Nodes are device nodes that it alone has. A CDI device with one of them is
	// this GPU, also in a spec that was written later than this file.
	Nodes []string `json:"nodes"`
}

// LeaseNames are the names of the leases, in the order of c.Leases.GPUs.
func (c Config) LeaseNames() (names []string) {
	for _, g := range c.Leases.GPUs {
		names = append(names, g.Name)
	}
	return names
}

// leasesOf are those of the devices that were found in the specs: by their nodes.
func (c Config) leasesOf(devices []cdispec.Device) (names []string, err error) {
	for _, d := range devices {
		nodes, err := d.Nodes()
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(c.Leases.GPUs, func(g LeasedGPU) bool {
			return slices.ContainsFunc(nodes, func(n string) bool { return slices.Contains(g.Nodes, n) })
		})
		if at < 0 {
			return nil, fmt.Errorf("cannot lease GPU %s: the wrapper's config has no name for its device nodes; run the task again in a minute, when the unit has described its GPUs anew", d.Name)
		}
		names = append(names, c.Leases.GPUs[at].Name)
	}
	return names, nil
}

func decodeLeasedGPUs(v rawjson.Value) ([]LeasedGPU, error) {
	return objects(v, func(g *LeasedGPU, key string, v rawjson.Value) (err error) {
		switch key {
		case "name":
			g.Name, err = text(v)
		case "nodes":
			g.Nodes, err = texts(v)
		default:
			err = errUnknownField
		}
		return err
	})
}

// objects decodes a list of objects, member by member.
func objects[T any](v rawjson.Value, member func(of *T, key string, v rawjson.Value) error) (list []T, err error) {
	if err := v.As(rawjson.Array); err != nil {
		return nil, err
	}
	for e := range v.Elements() {
		var one T
		if err := fields(e, func(key string, v rawjson.Value) error { return member(&one, key, v) }); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// checkNames wants each device to have one name, and each name to be of one GPU.
func (l *Leases) checkNames(devices []string) error {
	if len(l.GPUs) != len(devices) {
		return fmt.Errorf("leases: gpus: there are %d for %d devices", len(l.GPUs), len(devices))
	}
	return checkNamed("leases", l.GPUs)
}

// checkNamed wants each name, and each node, to be of one GPU.
func checkNamed(of string, gpus []LeasedGPU) error {
	var names, nodes []string
	for _, g := range gpus {
		if g.Name == "" || len(g.Nodes) == 0 || slices.Contains(names, g.Name) {
			return fmt.Errorf("%s: gpus: %q is no name with nodes, or there twice", of, g.Name)
		}
		names = append(names, g.Name)
		for _, n := range g.Nodes {
			if !filepath.IsAbs(n) || slices.Contains(nodes, n) {
				return fmt.Errorf("%s: gpus: %q is no absolute path, or there twice", of, n)
			}
			nodes = append(nodes, n)
		}
	}
	return nil
}
