// Package deviceplugin implements gpu-device-plugin. It offers a machine's AMD GPUs to the
// kubelet through the device plugin API (v1beta1), and leases them to pods if the unit
// leases GPUs to its tasks, so that a task and a pod never have the same GPU. It changes
// and opens no GPU, and communicates only with the kubelet, through its sockets.
//
// A GPU that a task or a container leases is not listed, because it is not faulty: the node
// can allocate one GPU less, and pods wait until it is back. A GPU in quarantine is listed
// as Unhealthy.
package deviceplugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/node"
)

// listed returns the devices for the kubelet.
func listed(devices []node.Device) []*v1beta1.Device {
	list := []*v1beta1.Device{}
	for _, d := range devices {
		if d.Holder != "" {
			continue
		}
		one := &v1beta1.Device{ID: d.Address(), Health: v1beta1.Healthy}
		if d.Exclusion != "" {
			one.Health = v1beta1.Unhealthy
		}
		if d.NUMA >= 0 {
			one.Topology = &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: int64(d.NUMA)}}}
		}
		list = append(list, one)
	}
	return list
}

// stateOf returns the state of a device for the log, and "" if pods can have it.
func stateOf(d node.Device) string {
	switch {
	case d.Holder != "":
		return "is not offered: " + d.Holder + " has it"
	case d.Exclusion != "":
		return "is Unhealthy: it " + d.Exclusion
	}
	return ""
}

// Values of --devices.
const (
	auto      = "auto"
	byCDIName = "cdi"
	byNode    = "nodes"
)

// answer returns how a container gets these devices: by their CDI names, their nodes, or
// both.
//
// The plugin cannot see whether the kubelet (1.28) and its runtime (containerd 1.7) support
// CDI, and both silently ignore it otherwise. So auto gives both: a runtime with CDI
// replaces a node by the same node of the spec, which each user of the pod may open. A node
// alone has the machine's mode and group, and the API has no field for them. A device
// without a CDI name has only nodes.
func answer(how string, devices []node.Device) (*v1beta1.ContainerAllocateResponse, error) {
	r := &v1beta1.ContainerAllocateResponse{}
	given := map[string]bool{}
	for _, d := range devices {
		if how != byNode && d.CDI != "" {
			r.CdiDevices = append(r.CdiDevices, &v1beta1.CDIDevice{Name: d.CDI})
		}
		if how == byCDIName && d.CDI == "" {
			return nil, fmt.Errorf("cannot give %s to a pod by its CDI name: it is not in %s; dispatch cdi "+
				"generate --output %[2]s describes it", d.Label(), wellknown.AMDSpec)
		}
		if how == byCDIName {
			continue
		}
		for _, path := range d.Paths {
			if !given[path] { // GPUs share /dev/kfd
				r.Devices = append(r.Devices,
					&v1beta1.DeviceSpec{HostPath: path, ContainerPath: path, Permissions: "rw"})
			}
			given[path] = true
		}
	}
	return r, nil
}

// Values of --resource-naming-strategy, as in AMD's own device plugin.
const (
	single = "single" // all under amd.com/gpu
	mixed  = "mixed"  // partitions under a name of their style, such as amd.com/cpx_nps4
)

const (
	vendorPrefix = "amd.com/"
	wholeGPU     = vendorPrefix + "gpu"
)

// resources groups devices by the resource that pods request. It refuses partitions of
// different sizes under one name, because a pod could not choose between them.
func resources(strategy string, devices []node.Device) (map[string][]node.Device, error) {
	styles := map[string][]node.Device{}
	for _, d := range devices {
		if d.Style != "" {
			styles[d.Style] = append(styles[d.Style], d)
		}
	}
	if strategy == single {
		if len(styles) > 1 {
			return map[string][]node.Device{wholeGPU: nil}, fmt.Errorf("cannot offer GPUs as %s: they are "+
				"partitioned as %s; partition them alike, or start with --resource-naming-strategy=%s",
				wholeGPU, strings.Join(slices.Sorted(maps.Keys(styles)), " and "), mixed)
		}
		return map[string][]node.Device{wholeGPU: devices}, nil
	}
	of := map[string][]node.Device{}
	for _, d := range devices {
		name := wholeGPU
		if d.Style != "" {
			name = vendorPrefix + d.Style
		}
		of[name] = append(of[name], d)
	}
	return of, nil
}

// isOurs reports whether pods get GPUs under this name from one of the strategies, or from
// AMD's plugin.
func isOurs(resource string) bool { return strings.HasPrefix(resource, vendorPrefix) }
