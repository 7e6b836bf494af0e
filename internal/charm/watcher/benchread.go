package watcher

import (
	"errors"
	"math"

	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd/amdgpu"
	"concourse-ci-machine/internal/gpu/sysfile"
	"concourse-ci-machine/internal/pool/clockpin"
)

// benchSight keeps a GPU's files open between looks.
type benchSight struct {
	*Unit
	name   string
	reader *amdgpu.Reader
}

func (u *benchSight) close() {
	if u.reader != nil {
		u.reader.Close()
	}
}

// read reads a GPU's level, clocks, and what slows it down, as the exporter would.
func (u *benchSight) read(held *clockpin.HeldPin) clockpin.Reading {
	now := clockpin.Reading{At: u.Host.Now()}
	level, unread := held.Now()
	if err := u.open(); err != nil {
		now.Failed = err.Error()
		return now
	}
	now.Level = level
	readingOf(&now, u.reader.Read(true, amdgpu.Seen{}), unread, held.Record)
	return now
}

func (u *benchSight) open() error {
	if u.reader != nil {
		return nil
	}
	devices, err := monitor.AMD(u.Host.Root)()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if gpu.Slot(d.PCI, d.Partition) == u.name {
			u.reader = amdgpu.NewReader(u.Host.Root, d, sysfile.NewLimit(), u.Host.Now)
			return nil
		}
	}
	return errors.New("the GPU is gone")
}

// busyAt is how much of the time a GPU runs graphics or compute that is busy.
const busyAt = .9

// clocksOf are those of a GPU, of several dies the fastest one's.
func clocksOf(s amdgpu.State) (all []clockpin.MHz) {
	for _, domain := range []string{"gfx", "mem"} {
		most := 0.
		for _, c := range s.Clocks {
			if c.Domain == domain {
				most = max(most, c.Hertz)
			}
		}
		if most > 0 {
			all = append(all, clockpin.MHz{Domain: domain, Value: int(math.Round(most / 1e6))})
		}
	}
	return all
}

// readingOf takes what the driver tells of limits. Its tables 1.4 and 1.5 always say that
// there is none (smu_v13_0_6_ppt.c). unread is why it does not tell the level.
func readingOf(now *clockpin.Reading, s amdgpu.State, unread error, r clockpin.Record) {
	now.Clocks, now.Busy = clocksOf(s), s.Activity.Graphics.Known && s.Activity.Graphics.Value >= busyAt
	switch t := s.Throttling; {
	case s.Suspended(): // nothing runs that could be slowed down, and the driver tells nothing
		now.Level, now.ThrottleKnown, now.Counters = r.Level, true, r.Counters
	case unread != nil:
		now.Failed = unread.Error()
	case !s.Alive:
		now.Failed = "the GPU does not answer"
	case len(t.Residency) > 0:
		now.ThrottleKnown = true
		if t.Ticks.Known {
			now.Counters = append(now.Counters, clockpin.Counter{Ticks: uint64(t.Ticks.Value)})
		}
		for _, r := range t.Residency {
			now.Counters = append(now.Counters, clockpin.Counter{Reason: r.Reason, Ticks: uint64(r.Ticks)})
		}
	case len(t.Active) > 0 && s.Table.Revision != nil:
		v := *s.Table.Revision
		now.ThrottleKnown = v.Format != 1 || v.Content != 4 && v.Content != 5
		for _, a := range t.Active {
			if a.Active {
				now.Limits = append(now.Limits, a.Reason)
			}
		}
	}
}
