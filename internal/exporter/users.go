package exporter

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/usage"
	"concourse-ci-machine/internal/host"
)

// users are those who use the GPUs, as the last look at them found. Nothing of
// it is read in a scrape. A nil *users has nothing to tell.
type users struct {
	scanner *usage.Scanner
	busy    atomic.Bool // a look has not come back
	now     func() time.Time
	old     time.Duration // when a look is no longer shown

	mu    sync.Mutex
	of    *usage.Result
	ready map[flightKey]readySeries // text of the rows, for as long as of is the last look
}

type readySeries struct {
	labels  labels
	samples []expo.Sample
}

func newUsers(root host.Root, o Options, now func() time.Time) *users {
	return &users{scanner: usage.New(root, usage.Options{Containers: o.UsageContainers}, now), now: now,
		old: 4 * o.UsageInterval, ready: map[flightKey]readySeries{}}
}

// readUsers looks once, unless the last look has not come back. Without a GPU
// no process is looked at.
func (c *Collector) readUsers(ctx context.Context) {
	found := c.known.Load()
	if found == nil || len(found.devices) == 0 || !c.users.busy.CompareAndSwap(false, true) {
		return
	}
	defer c.users.busy.Store(false)
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	devices := make([]usage.Device, len(found.devices))
	for i, d := range found.devices {
		devices[i] = used(d)
	}
	c.users.scanner.Scan(ctx, devices)
}

func used(d Device) usage.Device {
	return usage.Device{PCI: d.PCI, Partition: d.Partition, Own: d.Own}
}

// last is the last look, nil when it is too old to say anything.
func (u *users) last() *usage.Result {
	if u == nil {
		return nil
	}
	r := u.scanner.Last()
	if r == nil || u.now().Sub(r.At) > u.old {
		return nil
	}
	return r
}

// add adds the series of a device.
func (u *users) add(out []expo.Sample, l labels, d Device) []expo.Sample {
	r := u.last()
	if r == nil {
		return out
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of != r {
		u.of = r
		clear(u.ready)
	}
	have, ok := u.ready[key(d)]
	if !ok || !have.labels.same(l) {
		have = readySeries{l, userSeries(l, r.Of(used(d)))}
		u.ready[key(d)] = have
	}
	return append(out, have.samples...)
}

func (l labels) same(other labels) bool {
	return l.gpu == other.gpu && l.uuid == other.uuid && l.pci == other.pci
}

func userSeries(l labels, rows []usage.Row) []expo.Sample {
	var out []expo.Sample
	add := func(s *expo.Series, v float64) { out = append(out, expo.Sample{Series: s, Value: v}.Fix()) }
	for _, r := range rows {
		add(l.series(containerProcesses, label("container", r.Container)), float64(r.Processes))
		for _, a := range r.Memory {
			add(l.series(containerMemory, label("container", r.Container), label("kind", a.Name)), a.Value)
		}
		for _, a := range r.Engines {
			add(l.series(containerEngine, label("container", r.Container), label("engine", a.Name)), a.Value)
		}
		for _, a := range r.Units {
			add(l.series(containerUnits, label("container", r.Container)), a.Value)
		}
	}
	return slices.Clip(out)
}

// addLeftOut adds what the look says of itself.
func (u *users) addLeftOut(out []expo.Sample, names []expo.Family) []expo.Sample {
	r := u.last()
	if r == nil {
		return out
	}
	for _, left := range []struct {
		reason string
		number int
	}{{"limit", r.Left.Limit}, {"namespace", r.Left.Namespace}, {"unreadable", r.Left.Unreadable}} {
		s := expo.NewSeries(usageLeftOut, names[usageLeftOut].Name, label("reason", left.reason))
		out = append(out, expo.Sample{Series: &s, Value: float64(left.number)})
	}
	s := expo.NewSeries(usageSeconds, names[usageSeconds].Name)
	return append(out, expo.Sample{Series: &s, Value: r.Took.Seconds()})
}
