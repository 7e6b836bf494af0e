package deviceplugin

import (
	"fmt"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"concourse-ci-machine/internal/base/wellknown"
)

// Values of --devices.
const (
	auto     = "auto"
	cdiNames = "cdi"
	nodes    = "nodes"
)

// answer is how a container gets these devices: by their CDI names, by their nodes, or by
// both. A plugin is not told whether the kubelet (1.28) and its runtime (containerd 1.7)
// know CDI, and both ignore it without a word where not. So auto gives both: who knows CDI
// replaces a node by the same one of the description. A device that is not described has
// nodes only.
func answer(how string, devices []device) (*v1beta1.ContainerAllocateResponse, error) {
	r := &v1beta1.ContainerAllocateResponse{}
	given := map[string]bool{}
	for _, d := range devices {
		if how != nodes && d.cdi != "" {
			r.CdiDevices = append(r.CdiDevices, &v1beta1.CDIDevice{Name: d.cdi})
		}
		if how == cdiNames && d.cdi == "" {
			return nil, fmt.Errorf("cannot give %s to a pod by its CDI name: it is not in %s; dispatch cdi generate --output %[2]s describes it", d.label, wellknown.AMDSpec)
		}
		if how == cdiNames {
			continue
		}
		for _, path := range d.nodes {
			if !given[path] { // /dev/kfd is everybody's
				r.Devices = append(r.Devices, &v1beta1.DeviceSpec{HostPath: path, ContainerPath: path, Permissions: "rw"})
			}
			given[path] = true
		}
	}
	return r, nil
}
