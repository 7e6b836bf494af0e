// Package deviceplugin is the program gpu-device-plugin: it offers a machine's AMD GPUs to
// the kubelet by the device plugin API (v1beta1), and leases to pods what a unit leases to
// its tasks, so that no GPU is in both. It changes no GPU, opens none, and speaks to
// nobody but the kubelet, by its sockets.
//
// A GPU that a task or a container leases is not listed at all, as it is not sick: what
// the node can allocate falls by one, and pods wait until it is back. One that is withheld
// from tasks is listed as Unhealthy.
package deviceplugin

import (
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// device is one GPU, or one partition, as the kubelet gets to know it.
type device struct {
	id    string   // of the kubelet and of the lease: see gpu.Slot
	label string   // as texts for people name it
	nodes []string // paths, /dev/kfd first
	cdi   string   // its name in the machine's CDI description, "" where it has none
	numa  int      // NUMA node, -1: not known
	style string   // how its GPU is partitioned, "cpx_nps4"; "" where GPUs can't be

	withheld string // why pods get it no more, after its name; "" where they do
	holder   string // which task or container leases it, "" for none
}

// listed is what the kubelet is told of the devices.
func listed(devices []device) []*v1beta1.Device {
	list := []*v1beta1.Device{}
	for _, d := range devices {
		if d.holder != "" {
			continue
		}
		one := &v1beta1.Device{ID: d.id, Health: v1beta1.Healthy}
		if d.withheld != "" {
			one.Health = v1beta1.Unhealthy
		}
		if d.numa >= 0 {
			one.Topology = &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: int64(d.numa)}}}
		}
		list = append(list, one)
	}
	return list
}

// state is what of a device the log tells, "" while pods can have it.
func (d device) state() string {
	switch {
	case d.holder != "":
		return "is not offered: " + d.holder + " has it"
	case d.withheld != "":
		return "is Unhealthy: it " + d.withheld
	}
	return ""
}
