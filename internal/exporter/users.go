package exporter

import (
	"bytes"
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
// a process is read in a scrape.
type users struct {
	scanner *usage.Scanner
	busy    atomic.Bool   // a look has not come back
	old     time.Duration // when a look is no longer shown

	mu    sync.Mutex
	told  []byte // the report that was read last
	said  *usage.Result
	of    *usage.Result
	ready map[flightKey]readySeries // text of the rows, for as long as of is the last look
}

type readySeries struct {
	labels  labels
	samples []expo.Sample
}

func newUsers(root host.Root, o Options, now func() time.Time) *users {
	return &users{scanner: usage.New(root, usage.Options{Containers: o.UsageContainers}, now),
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

// lastUsers is the last look, this process's own or the one that another tells
// of; nil when it is too old to say anything.
func (c *Collector) lastUsers() *usage.Result {
	if c.users == nil {
		return nil
	}
	r := c.users.scanner.Last()
	if c.options.UsageReport != "" {
		r = c.users.read(c)
	}
	if r == nil || c.now().Sub(r.At).Abs() > c.users.old {
		return nil
	}
	return r
}

// read is what the report says, which is decoded once.
func (u *users) read(c *Collector) *usage.Result {
	data := c.readReport("usage", c.options.UsageReport)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.said == nil || !bytes.Equal(data, u.told) {
		u.told, u.said = data, decodeReport[usage.Result](c, "usage", data)
	}
	return u.said
}

// add adds the series of a device.
func (u *users) add(out []expo.Sample, r *usage.Result, l labels, d Device) []expo.Sample {
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
func addLeftOut(out []expo.Sample, r *usage.Result, names []expo.Family) []expo.Sample {
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
