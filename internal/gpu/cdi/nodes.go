package cdi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu"
)

// Nodes are the device nodes that Path gives to a container with this GPU alone, the one
// with this index: what a task gets, /dev/kfd first. One whose description is older than
// the GPU's place has none.
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
			return append(slices.Clone(spec.ContainerEdits.DeviceNodes), nodes...), nil
		}
	}
	return nil, fmt.Errorf("cannot find GPU %d with its node %s in %s: it is described anew within a minute", index,
		g.Render.Path, Path)
}
