package deviceplugin

import (
	"fmt"
	"slices"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// traits are what the kubelet may ask of the plugin.
func (p *plugin) traits() *v1beta1.DevicePluginOptions {
	return &v1beta1.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true}
}

// find are the indexes of devices.
func (m machine) find(ids []string) (found []int, err error) {
	for _, id := range ids {
		i := slices.IndexFunc(m.devices, func(d device) bool { return d.id == id })
		if i < 0 {
			return nil, fmt.Errorf("cannot give GPU %s to a pod: this machine has no such GPU now", id)
		}
		found = append(found, i)
	}
	return found, nil
}

// allocate answers with all containers' devices, or with none.
func (p *plugin) allocate(r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &v1beta1.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		found, err := p.seen.find(c.DevicesIds)
		if err != nil {
			return nil, err
		}
		var devices []device
		for _, i := range found {
			devices = append(devices, p.seen.devices[i])
		}
		given, err := answer(p.devices, devices)
		if err != nil {
			return nil, err
		}
		a.ContainerResponses = append(a.ContainerResponses, given)
	}
	return a, nil
}

// start says whether a container may start with the devices that it was given.
func (p *plugin) start(ids []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.seen.find(ids)
	return err
}

// prefer chooses among free devices as leases do.
func (p *plugin) prefer(r *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &v1beta1.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		free, err := p.seen.find(c.AvailableDeviceIDs)
		if err != nil {
			return nil, err
		}
		must, err := p.seen.find(c.MustIncludeDeviceIDs)
		if err != nil {
			return nil, err
		}
		slices.Sort(free)
		slices.Sort(must)
		n := int(c.AllocationSize)
		if n < len(must) || n > len(free) {
			return nil, fmt.Errorf("cannot choose %d of %d GPUs, %d of them for sure", n, len(free), len(must))
		}
		one := &v1beta1.ContainerPreferredAllocationResponse{}
		for _, i := range p.seen.leases.Prefer(free, must, n) {
			one.DeviceIDs = append(one.DeviceIDs, p.seen.devices[i].id)
		}
		a.ContainerResponses = append(a.ContainerResponses, one)
	}
	return a, nil
}
