// Package nested writes a CDI spec of a task's AMD GPUs, for the container engines in the
// task.
package nested

import (
	"strconv"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/visible"
)

// Spec returns a CDI spec of these GPUs. It has version 0.5.0, because podman 4 reads no
// spec with annotations. Indexes count the task's GPUs, as ROCm does there, so that a task
// with one of eight GPUs can request 0. Other names stay with their GPU.
func Spec(gpus []visible.GPU) ([]byte, error) {
	if err := visible.Describe(gpus); err != nil {
		return nil, err
	}
	devices := make([]cdispec.Device, len(gpus))
	out := []byte(`{"cdiVersion":"0.5.0","kind":"` + wellknown.AMDKind + `","devices":[`)
	for i, g := range gpus {
		devices[i] = g.Device
		own, err := cdispec.Merge([]cdispec.Device{g.Device})
		if err != nil {
			return nil, err
		}
		for _, name := range append([]string{strconv.Itoa(i)}, g.IDs()...) {
			out = append(appendDevice(out, name, own.Nodes), ',')
		}
	}
	all, err := cdispec.Merge(devices)
	return append(appendDevice(out, cdispec.All, all.Nodes), "]}\n"...), err
}

// appendDevice writes a device with its nodes as the task has them. Their access is that of
// the task's control group, because a nested container cannot have more (cgroup v1 refuses
// the rule). Their mode is that of the task's nodes, for the users of every container.
func appendDevice(out []byte, name string, nodes []cdispec.Node) []byte {
	out = rawjson.AppendString(append(out, `{"name":`...), name)
	out = append(out, `,"containerEdits":{"deviceNodes":[`...)
	for i, n := range nodes {
		if i > 0 {
			out = append(out, ',')
		}
		out = rawjson.AppendString(append(out, `{"path":`...), n.Path)
		if n.Major != 0 || n.Minor != 0 { // otherwise the engine reads the node
			out = strconv.AppendUint(append(out, `,"type":"c","major":`...), n.Major, 10)
			out = strconv.AppendUint(append(out, `,"minor":`...), n.Minor, 10)
		}
		out = strconv.AppendUint(append(out, `,"fileMode":`...), 0o666, 10)
		out = append(out, `,"permissions":"rw"}`...)
	}
	return append(out, "]}}"...)
}
