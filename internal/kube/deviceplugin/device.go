// Package deviceplugin implements gpu-device-plugin. It offers a machine's AMD GPUs to the
// kubelet through the device plugin API (v1beta1), and leases them to pods if the unit
// leases GPUs to its tasks, so that a task and a pod never have the same GPU. It changes
// and opens no GPU. It communicates with the kubelet, through its sockets, and gives the API
// server an Event for the pod of a quarantined GPU.
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
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// device describes one GPU, or one partition, as the kubelet sees it.
type device struct {
	gpu.Slot
	nodes []string // paths, /dev/kfd first
	cdi   string   // its name in the machine's CDI spec; "" if it has none
	numa  int      // NUMA node; -1 if not known
	style string   // its partitioning, "cpx_nps4"; "" if it cannot be partitioned

	replicas int // how often it is offered as a shared GPU; 0 if one pod at a time has it

	exclusion string // why pods do not get it, as a text that follows its name; "" if they do
	holder    string // the task, container or run that leases it, or pods with the GPU in the other way; "" for none
}

// id returns the device's name for the kubelet and the lease.
func (d device) id() string { return d.Address() }

// label returns the device's name in texts for people.
func (d device) label() string { return fmt.Sprintf("GPU %d (%s)", d.Index, d.Address()) }

// listed returns the devices for the kubelet.
func listed(devices []device) []*v1beta1.Device {
	list := []*v1beta1.Device{}
	for _, d := range devices {
		if d.holder != "" {
			continue
		}
		for _, id := range d.ids() {
			one := &v1beta1.Device{ID: id, Health: v1beta1.Healthy}
			if d.exclusion != "" {
				one.Health = v1beta1.Unhealthy
			}
			if d.numa >= 0 {
				one.Topology = &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: int64(d.numa)}}}
			}
			list = append(list, one)
		}
	}
	return list
}

// state returns the state of a device for the log, and "" if pods can have it.
func (d device) state() string {
	switch {
	case d.holder != "":
		return "is not offered: held by " + d.holder
	case d.exclusion != "":
		return "is Unhealthy: it " + d.exclusion
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
func answer(how string, devices []device) (*v1beta1.ContainerAllocateResponse, error) {
	r := &v1beta1.ContainerAllocateResponse{}
	given := map[string]bool{}
	for _, d := range devices {
		if how != byNode && d.cdi != "" {
			r.CdiDevices = append(r.CdiDevices, &v1beta1.CDIDevice{Name: d.cdi})
		}
		if how == byCDIName && d.cdi == "" {
			return nil, fmt.Errorf("cannot give %s to a pod by its CDI name: it is not in %s; dispatch cdi "+
				"generate --output %[2]s describes it", d.label(), wellknown.AMDSpec)
		}
		if how == byCDIName {
			continue
		}
		for _, path := range d.nodes {
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
func resources(strategy string, devices []device) (map[string][]device, error) {
	styles := map[string][]device{}
	for _, d := range devices {
		if d.style != "" {
			styles[d.style] = append(styles[d.style], d)
		}
	}
	if strategy == single && len(styles) > 1 {
		return map[string][]device{wholeGPU: nil}, fmt.Errorf("cannot offer GPUs as %s: they are partitioned as "+
			"%s; partition them alike, or start with --resource-naming-strategy=%s", wholeGPU,
			strings.Join(slices.Sorted(maps.Keys(styles)), " and "), mixed)
	}
	of := map[string][]device{}
	if strategy == single && len(devices) == 0 {
		of[wholeGPU] = nil
	}
	for _, d := range devices {
		name := wholeGPU
		if strategy == mixed && d.style != "" {
			name = vendorPrefix + d.style
		}
		if d.replicas > 0 {
			name += sharedSuffix
		}
		of[name] = append(of[name], d)
	}
	return of, nil
}

// isOurs reports whether pods get GPUs under this name from one of the strategies, or from
// AMD's plugin.
func isOurs(resource string) bool { return strings.HasPrefix(resource, vendorPrefix) }
