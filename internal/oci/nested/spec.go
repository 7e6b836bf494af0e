// Package nested says in CDI which AMD GPUs a task has, for the container engines in it.
package nested

import (
	"strconv"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/gpu/cdispec"
	"concourse-ci-machine/internal/oci/visible"
)

// Spec is these devices as a CDI spec of version 0.5.0, which podman 4 reads: one with
// annotations it does not. Indexes count the task's GPUs, as ROCm does there, so that who leases one
// GPU of eight can ask for 0; the other names stay with their GPU.
func Spec(specs []*cdispec.Spec, devices []cdispec.Device) ([]byte, error) {
	gpus, err := visible.Single(specs, devices)
	if err != nil {
		return nil, err
	}
	out := []byte(`{"cdiVersion":"0.5.0","kind":"` + wellknown.AMDKind + `","devices":[`)
	for i, g := range gpus {
		own, err := cdispec.Merge([]cdispec.Device{g.Device})
		if err != nil {
			return nil, err
		}
		for _, name := range append([]string{strconv.Itoa(i)}, g.IDs...) {
			out = append(appendDevice(out, name, own.Nodes), ',')
		}
	}
	all, err := cdispec.Merge(devices)
	return append(appendDevice(out, cdispec.All, all.Nodes), "]}\n"...), err
}

// appendDevice writes a device with its nodes as the task has them. Their access is what
// the task's control group allows, as that of a container in it can't be more (cgroup v1
// refuses the rule); their mode is that of the task's, for users of every container.
func appendDevice(out []byte, name string, nodes []cdispec.Node) []byte {
	out = rawjson.AppendString(append(out, `{"name":`...), name)
	out = append(out, `,"containerEdits":{"deviceNodes":[`...)
	for i, n := range nodes {
		if i > 0 {
			out = append(out, ',')
		}
		out = rawjson.AppendString(append(out, `{"path":`...), n.Path)
		if n.Major != 0 || n.Minor != 0 { // else an engine asks the node
			out = strconv.AppendUint(append(out, `,"type":"c","major":`...), n.Major, 10)
			out = strconv.AppendUint(append(out, `,"minor":`...), n.Minor, 10)
		}
		out = strconv.AppendUint(append(out, `,"fileMode":`...), 0o666, 10)
		out = append(out, `,"permissions":"rw"}`...)
	}
	return append(out, "]}}"...)
}
