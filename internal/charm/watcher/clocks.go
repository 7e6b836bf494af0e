package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/clockpin"
)

// The wrapper fixes the clocks of a task's GPUs and ends before the task. So each look
// starts a separate process for each GPU with a pin. It returns the clocks if the task has
// ended, and otherwise records the limits in the task's verdict. A GPU that hangs blocks
// only that process.

// startBench starts WatchBench for the GPUs with a pin, and for GPUs with a damaged pin.
func (u *Unit) startBench() error {
	entries, err := u.Host.ReadDir(clockpin.DefaultDir)
	if errors.Is(err, fs.ErrNotExist) || u.Start == nil {
		return nil
	}
	for _, e := range entries {
		if one, readErr := u.pins().Read(e.Name()); one != nil || readErr != nil && clockpin.IsWholeGPU(e.Name()) {
			err = errors.Join(err, u.Start("gpu", "bench", e.Name()))
		}
	}
	return err
}

func (u *Unit) pins() clockpin.Pins {
	return clockpin.Pins{
		Dir: u.Host.Path(clockpin.DefaultDir), Proc: u.Host.Path("/proc"), Now: u.Host.Now,
		Sleep: time.Sleep,
	}
}

// sysfsDir returns the directory of a whole GPU.
func sysfsDir(name string) string { return path.Join(clockpin.Devices, name) }

const (
	// BenchLooks is the number of looks at each pinned GPU between two looks at the unit,
	// with a pause of benchPause.
	BenchLooks = int(api.ReadPeriod / benchPause)
	benchPause = time.Second
)

// WatchBench looks at one GPU while it has a pin, at most looks times. When the task is
// over, a separate service returns the clocks: sysfs is read-only for this process.
func (u *Unit) WatchBench(ctx context.Context, name string, looks int) error {
	s := &benchWatch{Unit: u, name: name}
	defer s.close()
	for n := range looks {
		if n > 0 {
			u.Host.Sleep(benchPause)
		}
		if pinned, err := s.look(ctx); !pinned || err != nil {
			return err
		}
	}
	return nil
}

// look checks the GPU once, and reports whether it stays pinned.
func (u *benchWatch) look(ctx context.Context) (pinned bool, err error) {
	name := u.name
	held, over, err := u.pins().Hold(
		name, u.Host.Path(sysfsDir(name)), func() (string, error) { return u.holder(name) })
	if err != nil {
		return false, err
	}
	if over {
		_, err := u.Host.Run(ctx, host.Command{
			Deadline: startTimeout, Argv: []string{"systemd-run", "--quiet", "--no-block", "--collect",
				"--unit=concourse-gpu-bench-" + strings.ReplaceAll(name, ":", "-") + ".service",
				"--description=clocks of GPU " + name + " given back",
				"--", role.BinDir + "/dispatch", "gpu", "bench", name, "back"}})
		return false, err
	}
	if held == nil {
		return false, nil
	}
	now := clockpin.Judge(held.Record, u.read(held))
	if err := held.Save(now); err != nil {
		return false, err
	}
	return true, u.writeVerdict(now, name)
}

// EndBench resets the clocks of a GPU if its task is over, with end also during a task.
func (u *Unit) EndBench(w io.Writer, name string, end bool) error {
	was, err := u.pins().Restore(name, u.Host.Path(sysfsDir(name)), func() (string, error) {
		if end {
			return "", nil
		}
		return u.holder(name)
	})
	if err != nil || was == nil {
		return err
	}
	fmt.Fprintf(w, "GPU %s: its clocks are its own again, container %s had fixed them\n", name, was.Container)
	was.MarkInvalid("its clocks were given back", u.Host.Now())
	return u.writeVerdict(*was, name)
}

// holder returns the container that leases a GPU, "" for none.
func (u *Unit) holder(name string) (string, error) {
	leases, err := u.readLeases()
	if err != nil || leases == nil {
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

// writeVerdict writes the verdict on all GPUs of a task: this GPU, and the GPUs that other
// processes watch. They may write the verdict at the same time.
func (u *Unit) writeVerdict(r clockpin.Record, name string) error {
	unlock, err := u.Host.Lock(path.Join(clockpin.DefaultDir, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := u.Host.ReadDir(clockpin.DefaultDir)
	if err != nil {
		return err
	}
	records := []clockpin.Record{r}
	for _, e := range entries {
		if e.Name() == name {
			continue
		}
		o, err := u.pins().Read(e.Name())
		if err != nil { // it is being written; the next look reads it
			o = &clockpin.Record{Task: r.Task}
		}
		if o != nil && o.Task == r.Task {
			records = append(records, *o)
		}
	}
	return clockpin.WriteVerdict(u.Host.Path(r.Bundle), clockpin.VerdictOf(records))
}

// benchWatch keeps a GPU's files open between looks.
type benchWatch struct {
	*Unit
	name   string
	reader *amdgpu.Reader
}

func (u *benchWatch) close() {
	if u.reader != nil {
		u.reader.Close()
	}
}

// read reads a GPU's level, clocks and limits, as the exporter does.
func (u *benchWatch) read(held *clockpin.HeldPin) clockpin.Reading {
	now := clockpin.Reading{At: u.Host.Now()}
	level, unread := held.Now()
	if err := u.open(); err != nil {
		now.Failed = err.Error()
		return now
	}
	now.Level = level
	addReading(&now, u.reader.Read(), unread, held.Record)
	return now
}

func (u *benchWatch) open() error {
	if u.reader != nil {
		return nil
	}
	devices, err := monitor.Of(u.Host.Root, gpu.VendorWith(gpu.Clocks))()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if d.Address() == u.name {
			u.reader = amdgpu.NewReader(d.AMD(), amdgpu.Options{Root: string(u.Host.Root), Now: u.Host.Now})
			return nil
		}
	}
	return errors.New("the GPU is gone")
}

// busyThreshold is the share of time with graphics or compute work that makes a GPU busy.
const busyThreshold = .9

// fastestClocks returns the clocks of a GPU. Of several dies the fastest counts.
func fastestClocks(s amdgpu.State) (all []clockpin.MHz) {
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

// addReading adds the driver's report on limits. The tables 1.4 and 1.5 always report no
// limit (smu_v13_0_6_ppt.c). unread is the error of the level.
func addReading(now *clockpin.Reading, s amdgpu.State, unread error, r clockpin.Record) {
	now.Clocks, now.Busy = fastestClocks(s), s.Activity.Graphics.Known && s.Activity.Graphics.Value >= busyThreshold
	switch t := s.Throttling; {
	case s.Suspended(): // no work can be slowed down, and the driver reports nothing
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
