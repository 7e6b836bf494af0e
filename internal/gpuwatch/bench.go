package gpuwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"concourse-ci-machine/internal/exporter/amdgpu"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/exporter/sysfile"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/pin"
	"concourse-ci-machine/internal/role"
)

// A task that measures has its GPUs' clocks fixed by the wrapper, which is gone then. So
// each look has a process of its own see to each GPU with a pin: whose task has ended is
// given back, and else what slows it down is written into the task's verdict. A GPU that
// hangs costs that process and nobody else.

// beginBench starts SeeBench for the GPUs that have a pin, or had one.
func (u *Unit) beginBench() error {
	entries, err := u.Host.ReadDir(pin.DefaultDir)
	if errors.Is(err, fs.ErrNotExist) || u.Start == nil {
		return nil
	}
	for _, e := range entries {
		if one, wrong := u.pins().Read(e.Name()); one != nil || wrong != nil && pin.Plain(e.Name()) {
			err = errors.Join(err, u.Start("gpu", "bench", e.Name()))
		}
	}
	return err
}

func (u *Unit) pins() pin.Pins {
	return pin.Pins{Dir: u.Host.Path(pin.DefaultDir), Proc: u.Host.Path("/proc"), Now: u.Host.Now, Sleep: time.Sleep}
}

// sysfsOf is the directory of a GPU that is whole.
func sysfsOf(name string) string { return path.Join(pin.Devices, name) }

// SeeBench looks at one GPU that has a pin. Where its task is over the GPU is given back
// in a service of its own: for who looks sysfs is read-only.
func (u *Unit) SeeBench(ctx context.Context, name string) error {
	held, over, err := u.pins().Hold(name, u.Host.Path(sysfsOf(name)), func() (string, error) { return u.holderOf(name) })
	if err != nil {
		return err
	}
	if over {
		_, err := u.Host.Run(ctx, host.Command{Deadline: startTime, Argv: []string{"systemd-run", "--quiet", "--no-block", "--collect",
			"--unit=concourse-gpu-bench-" + strings.ReplaceAll(name, ":", "-") + ".service", "--description=clocks of GPU " + name + " given back",
			"--", role.BinDir + "/dispatch", "gpu", "bench", name, "back"}})
		return err
	}
	if held == nil {
		return nil
	}
	now := pin.Judge(held.Record, u.readBench(name, held))
	if err := held.Note(now); err != nil {
		return err
	}
	return u.writeVerdict(now, name)
}

// EndBench gives a GPU back whose task is over; with end whoever has it.
func (u *Unit) EndBench(w io.Writer, name string, end bool) error {
	was, err := u.pins().Back(name, u.Host.Path(sysfsOf(name)), func() (string, error) {
		if end {
			return "", nil
		}
		return u.holderOf(name)
	})
	if err != nil || was == nil {
		return err
	}
	fmt.Fprintf(w, "GPU %s: its clocks are its own again, container %s had fixed them\n", name, was.Container)
	was.Why = "its clocks were given back"
	return u.writeVerdict(*was, name)
}

// holderOf is the container that leases a GPU now, "" for none.
func (u *Unit) holderOf(name string) (string, error) {
	leases, _, on, err := u.leased()
	if err != nil || !on {
		return "", err
	}
	states, _, err := leases.Read()
	for _, s := range states {
		if s.GPU == name && s.Held {
			return s.Container, err
		}
	}
	return "", err
}

// writeVerdict tells a task what is known of all of its GPUs: this one, and those that
// others see to, who may do the same at this moment.
func (u *Unit) writeVerdict(r pin.Record, name string) error {
	unlock, err := u.Host.Lock(path.Join(pin.DefaultDir, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := u.Host.ReadDir(pin.DefaultDir)
	if err != nil {
		return err
	}
	records := []pin.Record{r}
	for _, e := range entries {
		if e.Name() == name {
			continue
		}
		o, err := u.pins().Read(e.Name())
		if err != nil { // it is being written; the next look knows more
			o = &pin.Record{Task: r.Task}
		}
		if o != nil && o.Task == r.Task {
			records = append(records, *o)
		}
	}
	return pin.WriteVerdict(u.Host.Path(r.Bundle), pin.VerdictOf(records))
}

// readBench reads a GPU's level, and what slows it down, as the exporter would.
func (u *Unit) readBench(name string, held *pin.Held) pin.Reading {
	now := pin.Reading{At: u.Host.Now()}
	level, unread := held.Now()
	devices, err := monitor.AMD(u.Host.Root)()
	if err != nil {
		now.Failed = err.Error()
		return now
	}
	for _, d := range devices {
		if gpu.Slot(d.PCI, d.Partition) != name {
			continue
		}
		r := amdgpu.NewReader(u.Host.Root, d, sysfile.NewLimit(), u.Host.Now)
		defer r.Close()
		now.Level = level
		readingOf(&now, r.Read(true, amdgpu.Seen{}), unread, held.Record)
		return now
	}
	now.Failed = "the GPU is gone"
	return now
}

// readingOf takes what the driver tells of limits. Its tables 1.4 and 1.5 always say that
// there is none (smu_v13_0_6_ppt.c). unread is why it does not tell the level.
func readingOf(now *pin.Reading, s amdgpu.State, unread error, r pin.Record) {
	switch t := s.Throttling; {
	case s.Suspended(): // nothing runs that could be slowed down, and the driver tells nothing
		now.Level, now.Known, now.Counters = r.Level, true, r.Counters
	case unread != nil:
		now.Failed = unread.Error()
	case !s.Alive:
		now.Failed = "the GPU does not answer"
	case len(t.Residency) > 0:
		now.Known = true
		if t.Ticks.Known {
			now.Counters = append(now.Counters, pin.Counter{Ticks: uint64(t.Ticks.Value)})
		}
		for _, r := range t.Residency {
			now.Counters = append(now.Counters, pin.Counter{Reason: r.Reason, Ticks: uint64(r.Ticks)})
		}
	case len(t.Active) > 0 && s.Table.Revision != nil:
		v := *s.Table.Revision
		now.Known = v.Format != 1 || v.Content != 4 && v.Content != 5
		for _, a := range t.Active {
			if a.Active {
				now.Limits = append(now.Limits, a.Reason)
			}
		}
	}
}
