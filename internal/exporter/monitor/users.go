package monitor

import (
	"context"
	"sync/atomic"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd/amdgpu"
	"concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
	"concourse-ci-machine/internal/gpu/usage"
)

// users are those who use the GPUs, as the last look at them found. Nothing of
// a process is read in a scrape.
type users struct {
	scanner *usage.Scanner
	busy    atomic.Bool   // a look has not come back
	old     time.Duration // when a look is no longer shown

	said kept[usage.Result]
}

func newUsers(root host.Root, o Options, now func() time.Time) *users {
	return &users{scanner: usage.New(root, usage.Options{Containers: o.UsageContainers}, now),
		old: 4 * o.UsageInterval}
}

// readUsers looks once, unless the last look has not come back. Without a GPU whose
// users can be known no process is looked at.
func (m *Monitor) readUsers(ctx context.Context) {
	found := m.known.Load()
	if found == nil {
		return
	}
	var devices []usage.Device
	for _, d := range found.devices {
		u := used(d)
		if d.Vendor == gpu.NVIDIA {
			if u.Node = nvidiagpu.Node(m.root, d.PCI); u.Node == "" {
				continue
			}
		}
		devices = append(devices, u)
	}
	if len(devices) == 0 || !m.users.busy.CompareAndSwap(false, true) {
		return
	}
	defer m.users.busy.Store(false)
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	m.users.scanner.Scan(ctx, devices)
}

func used(d amdgpu.Device) usage.Device {
	return usage.Device{PCI: d.PCI, Partition: d.Partition, Own: d.Own}
}

// lastUsers is the last look, this process's own or the one that another tells
// of; nil when it is too old to say anything.
func (m *Monitor) lastUsers() *usage.Result {
	if m.users == nil {
		return nil
	}
	r := m.users.scanner.Last()
	if m.options.UsageReport != "" {
		r = m.users.said.read(m, "usage", m.options.UsageReport)
	}
	if r == nil || m.now().Sub(r.At).Abs() > m.users.old {
		return nil
	}
	return r
}
