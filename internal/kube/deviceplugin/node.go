package deviceplugin

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Node holds the GPUs of a node for the DRA driver, which offers the same as the plugin and
// leases them in the same way.
type Node struct {
	Devices []Device     // in the order of leases
	GPUs    []gpu.GPU    // of the devices
	KFD     gpu.KFD      // all GPUs share it
	Leases  lease.Leases // GPUs are always the devices
	States  []lease.State

	seen machine
}

// Device describes one GPU, or one partition. Its name for leases is its Address.
type Device struct {
	gpu.Slot
	Style     string    // its partitioning, "cpx_nps4"; "" if it cannot be partitioned
	Exclusion string    // why claims do not get it, as a text that follows its name; "" if they do
	Cause     string    // the cause of its quarantine in a word: "hang", "by_hand"; "" without one
	Since     time.Time // of its quarantine
	// RecentFaults counts its faults in service within a day; nil if no unit records them.
	RecentFaults *int
}

// Label returns the device's name in texts for people.
func (d Device) Label() string { return device{Slot: d.Slot}.label() }

// LookAtNode reads the GPUs as the plugin does. Without a unit that leases GPUs, leases are in
// the default directory. It opens no GPU.
func LookAtNode(r host.Root, config string, now func() time.Time, before Node) (n Node, err error) {
	if n.seen, err = look(r, config, now, before.seen); err != nil {
		return n, err
	}
	record, err := quarantine.RecordFile.Read(r)
	if err != nil {
		return n, err
	}
	n.KFD, n.Leases, n.States = n.seen.kfd, n.seen.leases, n.seen.states
	for _, d := range n.seen.devices {
		one := Device{Slot: d.Slot, Style: d.style, Exclusion: d.exclusion}
		if q := record.Find(d.id()); q != nil {
			one.RecentFaults = new(len(q.RecentStrikes(now())))
			if q.QuarantinedSince != nil && d.exclusion != "" {
				one.Cause, one.Since = strings.ReplaceAll(q.ShortReason(), " ", "_"), *q.QuarantinedSince
			}
		}
		g := slices.IndexFunc(n.seen.all, func(g gpu.GPU) bool { return g.Address() == d.id() })
		n.Devices, n.GPUs = append(n.Devices, one), append(n.GPUs, n.seen.all[g])
	}
	if !n.seen.leased() {
		n.Leases.Dir, n.Leases.Now = r.Path(lease.DefaultDir), now
		n.Leases.Proc, n.Leases.Cgroup = r.Path("/proc"), r.Path("/sys/fs/cgroup")
		n.Leases.Euid = uint32(os.Geteuid())
		n.States, _, err = n.Leases.Read()
	}
	return n, err
}

// Shared returns the devices that --shared-gpus names, and which of its entries name none.
func (n Node) Shared(gpus string) (indexes []int, unknown error) { return n.seen.chosen(gpus) }

// EndedPods returns the GPUs that pods of the plugin hold and the kubelet no longer lists. It is
// for the program that has taken the plugin's place. A pod without a name keeps its GPUs.
func (n Node) EndedPods(ctx context.Context, kubelet string) (ended []int, err error) {
	var uses []use
	for i, s := range n.States {
		if namespace, _, _ := s.Pod(); !s.Held || s.Kind != lease.Pod || namespace == "" && s.Container != lease.SharingPods {
			continue
		}
		if uses == nil {
			if uses, err = listUses(ctx, kubelet); err != nil {
				return nil, err
			}
		}
		has := func(u use) bool {
			return u.container == s.Container || s.Container == lease.SharingPods && u.shares(s.GPU)
		}
		if !slices.ContainsFunc(uses, has) {
			ended = append(ended, i)
		}
	}
	return ended, nil
}

// shares reports whether a container has a replica of a GPU.
func (u use) shares(gpu string) bool {
	return slices.ContainsFunc(u.ids, func(id string) bool { return strings.HasPrefix(id, gpu+replicaMark) })
}
