package deviceplugin

import (
	"fmt"
	"slices"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// pluginOptions returns the optional calls that the kubelet may make.
func (p *plugin) pluginOptions() *v1beta1.DevicePluginOptions {
	return &v1beta1.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true}
}

// find returns the indexes of devices.
func (m machine) find(ids []string) (found []int, err error) {
	for _, id := range ids {
		i := slices.IndexFunc(m.devices, func(d device) bool { return d.id() == id })
		if i < 0 {
			return nil, fmt.Errorf("cannot give GPU %s to a pod: this machine has no such GPU now", id)
		}
		found = append(found, i)
	}
	return found, nil
}

// allocate answers with the devices of all containers and leases them, or does neither. The
// kubelet does not name the pod.
func (p *plugin) allocate(r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &v1beta1.AllocateResponse{}
	var all []int
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
		all = append(all, found...)
	}
	if err := p.seen.hold(all); err != nil {
		return nil, err
	}
	return a, nil
}

// checkStart refuses a container that may not start with its devices. They may be from
// before a reboot, after which a task may have one of them.
func (p *plugin) checkStart(ids []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, err := p.seen.find(ids)
	if err != nil {
		return err
	}
	if err := p.checkSameNodes(ids, found); err != nil {
		return err
	}
	if !p.seen.leased() {
		return nil // a running container with a faulty GPU goes on, and so it may also restart
	}
	states, _, err := p.seen.leases.Read()
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(i int) bool { return states[i].Held && states[i].Kind == lease.Pod })
	return p.seen.hold(found)
}

// checkSameNodes refuses a container that would get another GPU's nodes. The kubelet keeps
// the answer to Allocate over a reboot, which may give a GPU another number.
func (p *plugin) checkSameNodes(ids []string, found []int) error {
	notes, err := readNotes(p.socketDir(), nil)
	if err != nil {
		return nil // it has none, or this plugin does not support their format
	}
	for _, n := range notes {
		if !isOurs(n.ResourceName) || !sameSet(n.ids(), ids) {
			continue
		}
		paths, err := n.paths()
		if err != nil {
			return fmt.Errorf("cannot read which nodes the container gets: %w", err)
		}
		for _, path := range paths {
			has := func(i int) bool { return slices.Contains(p.seen.devices[i].nodes, path) }
			if !slices.ContainsFunc(found, has) {
				return fmt.Errorf("cannot start a container with %s, which is no longer a node of its GPU: "+
					"delete the pod, so that it is given its GPU again", path)
			}
		}
	}
	return nil
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
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
			one.DeviceIDs = append(one.DeviceIDs, p.seen.devices[i].id())
		}
		a.ContainerResponses = append(a.ContainerResponses, one)
	}
	return a, nil
}
