// Package gpureset resets a quarantined GPU that nothing uses, so that a person need not.
// Plan is a pure function. Reset carries it out: it leases the GPU, records the attempt,
// looks again who has the GPU open, and only then asks the driver for the reset.
//
// It never resets a GPU in an LXD container, a GPU that a container or pod holds or that a
// process has open, or a GPU in a hive with another GPU in use. An attempt that was killed counts
// as a reset and is never repeated by itself.
package gpureset

import (
	"fmt"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

const (
	// waitTime is how long a fault must last, because most driver states end by themselves.
	waitTime = 30 * time.Second
	// maxResets bounds the resets of a GPU in a day. A GPU that needs more is broken.
	maxResets = 2
	day       = 24 * time.Hour
)

// World holds the input of one plan.
type World struct {
	At     time.Time
	LXD    bool // the machine is an LXD container
	Record quarantine.Record
	Past   History
	GPUs   []gpu.GPU
	Links  [][]gpu.Link  // of GPUs, see gpu.ReadHives
	Leases []lease.State // of all GPUs; nil if GPUs are not leased, and any container may have them
	// Open has the processes with open nodes, by address. OpenUnknown is why it is not known.
	Open        map[string][]int
	OpenUnknown string
	// HiveUnknown is why the links of a GPU are not known, by address.
	HiveUnknown map[string]error
}

// Check returns the GPUs that a reset of a GPU includes, or why it is not reset now.
func (w World) Check(name string) (group []string, err error) {
	g := w.Record.Find(name)
	switch {
	case w.LXD:
		return nil, fmt.Errorf("the GPU belongs to the LXD host")
	case g == nil || g.State != quarantine.Quarantined || g.QuarantinedBy != quarantine.ByHealth || g.CommonCause ||
		g.Fault == nil || !quarantine.Curable(*g.Fault):
		return nil, fmt.Errorf("it has no fault that a reset ends")
	case w.At.Sub(g.Since) < waitTime:
		return nil, fmt.Errorf("its fault may end by itself")
	case w.Past.since(name, g.Since):
		return nil, fmt.Errorf("a reset did not end its fault")
	case w.Past.count(name, w.At) >= maxResets:
		return nil, fmt.Errorf("it was reset %d times within a day", maxResets)
	case w.Leases == nil:
		return nil, fmt.Errorf("GPUs are shared: a container may have it")
	case w.OpenUnknown != "":
		return nil, fmt.Errorf("cannot see who has it open: %s", w.OpenUnknown)
	}
	if group = w.group(name); len(group) == 0 {
		return nil, fmt.Errorf("it is missing")
	}
	for _, member := range group {
		if err := w.HiveUnknown[member]; err != nil {
			return nil, fmt.Errorf("cannot see the hive of GPU %s: %w", member, err)
		}
		if pids := w.Open[member]; len(pids) > 0 {
			return nil, fmt.Errorf("process %d has GPU %s open", pids[0], member)
		}
		at := slices.IndexFunc(w.Leases, func(s lease.State) bool { return s.GPU == member })
		if at < 0 {
			return nil, fmt.Errorf("GPU %s is not leased, and a container may have it", member)
		}
		if w.Leases[at].Held {
			return nil, fmt.Errorf("%s holds GPU %s", w.Leases[at].Holder(), member)
		}
		if o := w.Record.Find(member); o != nil && o.OpenIn != "" {
			return nil, fmt.Errorf("container %s has GPU %s open", o.OpenIn, member)
		}
	}
	return group, nil
}

// Plan returns the GPU to reset now, the one with the oldest fault first, and "" for none.
func (w World) Plan() (name string) {
	var since time.Time
	for _, g := range w.Record.GPUs {
		if _, err := w.Check(g.Name); err == nil && (name == "" || g.Since.Before(since)) {
			name, since = g.Name, g.Since
		}
	}
	return name
}

// group returns the GPUs that the driver resets together: all partitions of the card, and
// all cards of its XGMI hive.
func (w World) group(name string) (names []string) {
	at := slices.IndexFunc(w.GPUs, func(g gpu.GPU) bool { return g.Address() == name })
	if at < 0 {
		return nil
	}
	in := []int{at}
	for k := 0; k < len(in); k++ {
		for i := range w.GPUs {
			link := w.Links[in[k]][i]
			if (link.Same || link.Hops > 0 || link.Hive) && !slices.Contains(in, i) {
				in = append(in, i)
			}
		}
	}
	slices.Sort(in)
	for _, i := range in {
		names = append(names, w.GPUs[i].Address())
	}
	return names
}
