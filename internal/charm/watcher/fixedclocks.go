package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/workstation"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// The wrapper fixes the clocks of a task's GPUs and ends before the task. So each look
// starts a separate process for each GPU with fixed clocks. It restores the clocks if the task has
// ended, and otherwise records the limits in the task's verdict. A GPU that hangs blocks
// only that process.

// startFixedClocks starts WatchFixedClocks for the GPUs with fixed clocks, and for damaged files.
func (u *Unit) startFixedClocks() error {
	entries, err := u.Host.ReadDir(fixedclocks.DefaultDir)
	if errors.Is(err, fs.ErrNotExist) || u.Start == nil {
		return nil
	}
	for _, e := range entries {
		one, readErr := u.fixedClocks().Read(e.Name())
		if one != nil || readErr != nil && fixedclocks.IsWholeGPU(e.Name()) {
			err = errors.Join(err, u.Start("gpu", "fixed-clocks", e.Name()))
		}
	}
	return err
}

func (u *Unit) fixedClocks() fixedclocks.Store {
	return fixedclocks.Store{
		Dir: u.Host.Path(fixedclocks.DefaultDir), Proc: u.Host.Path("/proc"), Now: u.Host.Now,
		Sleep: time.Sleep,
	}
}

// sysfsDir returns the directory of a whole GPU.
func sysfsDir(name string) string { return path.Join(fixedclocks.Devices, name) }

const (
	// ClockLooks is the number of looks at each GPU with fixed clocks between two looks at the unit,
	// with a pause of clockPause.
	ClockLooks = int(api.ReadPeriod / clockPause)
	clockPause = time.Second
)

// WatchFixedClocks looks at one GPU while its clocks are fixed, at most looks times. When the task is
// over, it restores the clocks. On a unit a separate service does, because sysfs is read-only
// for this process.
func (u *Unit) WatchFixedClocks(ctx context.Context, name string, looks int) error {
	s := &clockWatch{Unit: u, name: name}
	defer s.close()
	for n := range looks {
		if n > 0 {
			u.Host.Sleep(clockPause)
		}
		if fixed, err := s.look(ctx); !fixed || err != nil {
			return err
		}
	}
	return nil
}

// look checks the GPU once, and reports whether its clocks stay fixed.
func (u *clockWatch) look(ctx context.Context) (fixed bool, err error) {
	name := u.name
	held, over, err := u.fixedClocks().Hold(
		name, u.Host.Path(sysfsDir(name)), func() (string, error) { return u.holder(name) })
	if err != nil {
		return false, err
	}
	switch {
	case !over:
	case u.onWorkstation(): // sysfs is writable
		return false, u.RestoreClocks(io.Discard, name, false)
	default:
		_, err := u.Host.Run(ctx, host.Command{
			Deadline: startTimeout, Argv: []string{"systemd-run", "--quiet", "--no-block", "--collect",
				"--unit=concourse-gpu-fixed-clocks-" + strings.ReplaceAll(name, ":", "-") + ".service",
				"--description=clocks of GPU " + name + " restored",
				"--", role.BinDir + "/dispatch", "gpu", "fixed-clocks", name, "back"}})
		return false, err
	}
	if held == nil {
		return false, nil
	}
	now := fixedclocks.Judge(held.Measurement, u.read(held))
	if err := held.Save(now); err != nil {
		return false, err
	}
	return true, u.writeVerdict(now, name)
}

// FixClocks fixes the clocks of a GPU for the run that leases it, and makes the run's verdict.
// After an error the GPU is unchanged.
func (u *Unit) FixClocks(name, run string) error {
	s, dir := u.fixedClocks(), workstation.ClocksDir(run)
	if r, err := s.ReadCurrent(name); err == nil && r != nil && r.Container == run {
		return nil // a lease service that ended had them fixed
	}
	holder := func() (string, error) { return u.holder(name) }
	pool, err := workstation.Pool(u.Host.Root)
	setting := workstation.ClockSetting(u.Host.Root, pool, name)
	if err == nil && setting == nil {
		err = errors.New("it is not a whole GPU from AMD")
	}
	if by, failed := holder(); err == nil && by != run {
		err = cmp.Or(failed, errors.New(run+" does not lease it"))
	}
	if err == nil {
		err = u.makeVerdict(dir, setting.Level)
	}
	if err == nil {
		err = s.Set(name, *setting, fixedclocks.Task{Container: run, Bundle: dir})
	}
	if err != nil {
		return fmt.Errorf("GPU %s: %w", name, err)
	}
	// The driver can take so long that the run has ended.
	if was, err := s.Restore(name, setting.Sysfs, holder); was != nil || err != nil {
		return cmp.Or(err, fmt.Errorf("GPU %s: %s has ended", name, run))
	}
	return nil
}

// makeVerdict makes the verdict of a run without a look.
func (u *Unit) makeVerdict(dir string, level fixedclocks.Level) error {
	if err := u.Host.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	fd, err := os.Open(u.Host.Path(dir))
	if err != nil {
		return err
	}
	defer fd.Close()
	return fixedclocks.MakeVerdict(int(fd.Fd()), fixedclocks.VerdictOf([]fixedclocks.Measurement{{Level: level}}))
}

// RestoreClocks restores the clocks of a GPU if its task is over, with end also during a task.
func (u *Unit) RestoreClocks(w io.Writer, name string, end bool) error {
	was, err := u.fixedClocks().Restore(name, u.Host.Path(sysfsDir(name)), func() (string, error) {
		if end {
			return "", nil
		}
		return u.holder(name)
	})
	if err != nil || was == nil {
		return err
	}
	fmt.Fprintf(w, "GPU %s: clocks restored, %s had fixed them\n", name, holderName(was.Container))
	if rungroup.IsRun(was.Container) && !end { // it has ended
		return os.RemoveAll(u.Host.Path(workstation.ClocksDir(was.Container)))
	}
	was.MarkInvalid("its clocks were restored", u.Host.Now())
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
func (u *Unit) writeVerdict(r fixedclocks.Measurement, name string) error {
	unlock, err := u.Host.Lock(path.Join(fixedclocks.DefaultDir, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := u.Host.ReadDir(fixedclocks.DefaultDir)
	if err != nil {
		return err
	}
	records := []fixedclocks.Measurement{r}
	for _, e := range entries {
		if e.Name() == name {
			continue
		}
		o, err := u.fixedClocks().Read(e.Name())
		if err != nil { // it is being written; the next look reads it
			o = &fixedclocks.Measurement{Task: r.Task}
		}
		if o != nil && o.Task == r.Task {
			records = append(records, *o)
		}
	}
	return fixedclocks.WriteVerdict(u.Host.Path(r.Bundle), fixedclocks.VerdictOf(records))
}

// clockWatch keeps a GPU's files open between looks.
type clockWatch struct {
	*Unit
	name   string
	reader *amdgpu.Reader
}

func (u *clockWatch) close() {
	if u.reader != nil {
		u.reader.Close()
	}
}

// read reads a GPU's level, clocks and limits, as the exporter does.
func (u *clockWatch) read(held *fixedclocks.Held) fixedclocks.Reading {
	now := fixedclocks.Reading{At: u.Host.Now()}
	level, unread := held.Now()
	if err := u.open(); err != nil {
		now.Failed = err.Error()
		return now
	}
	now.Level = level
	addReading(&now, u.reader.Read(), unread, held.Measurement)
	return now
}

func (u *clockWatch) open() error {
	if u.reader != nil {
		return nil
	}
	devices, _, err := monitor.Of(u.Host.Root, gpu.VendorWith(gpu.Clocks))()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if d.Address() == u.name {
			u.reader = amdgpu.NewReader(reading.AMD(d), amdgpu.Options{Root: string(u.Host.Root), Now: u.Host.Now})
			return nil
		}
	}
	return errors.New("the GPU is missing")
}

// busyThreshold is the share of time with graphics or compute work that makes a GPU busy.
const busyThreshold = .9

// fastestClocks returns the clocks of a GPU. Of several dies it returns the fastest.
func fastestClocks(s amdgpu.State) (all []fixedclocks.MHz) {
	for _, domain := range []string{"gfx", "mem"} {
		most := 0.
		for _, c := range s.Clocks {
			if c.Domain == domain {
				most = max(most, c.Hertz)
			}
		}
		if most > 0 {
			all = append(all, fixedclocks.MHz{Domain: domain, Value: int(math.Round(most / 1e6))})
		}
	}
	return all
}

// addReading adds the driver's report on limits. The tables 1.4 and 1.5 always report no
// limit (smu_v13_0_6_ppt.c). unread is the error of the level.
func addReading(now *fixedclocks.Reading, s amdgpu.State, unread error, r fixedclocks.Measurement) {
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
			now.Counters = append(now.Counters, fixedclocks.Counter{Ticks: uint64(t.Ticks.Value)})
		}
		for _, r := range t.Residency {
			now.Counters = append(now.Counters, fixedclocks.Counter{Reason: r.Reason, Ticks: uint64(r.Ticks)})
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
