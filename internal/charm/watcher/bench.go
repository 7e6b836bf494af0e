package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/pool/clockpin"
)

// A task that measures has its GPUs' clocks fixed by the wrapper, which is gone then. So
// each look has a process of its own see to each GPU with a pin: whose task has ended is
// given back, and else what slows it down is written into the task's verdict. A GPU that
// hangs costs that process and nobody else.

// beginBench starts SeeBench for the GPUs that have a pin, or had one.
func (u *Unit) beginBench() error {
	entries, err := u.Host.ReadDir(clockpin.DefaultDir)
	if errors.Is(err, fs.ErrNotExist) || u.Start == nil {
		return nil
	}
	for _, e := range entries {
		if one, wrong := u.pins().Read(e.Name()); one != nil || wrong != nil && clockpin.IsWholeGPU(e.Name()) {
			err = errors.Join(err, u.Start("gpu", "bench", e.Name()))
		}
	}
	return err
}

func (u *Unit) pins() clockpin.Pins {
	return clockpin.Pins{Dir: u.Host.Path(clockpin.DefaultDir), Proc: u.Host.Path("/proc"), Now: u.Host.Now, Sleep: time.Sleep}
}

// sysfsOf is the directory of a GPU that is whole.
func sysfsOf(name string) string { return path.Join(clockpin.Devices, name) }

// BenchLooks are made of each pinned GPU between two looks at the unit, a second apart.
const (
	BenchLooks = int(resource.JobPeriod / benchPause)
	benchPause = time.Second
)

// SeeBench looks at one GPU that has a pin, so often and while it has. Where its task is
// over the GPU is given back in a service of its own: for who looks sysfs is read-only.
func (u *Unit) SeeBench(ctx context.Context, name string, looks int) error {
	s := &benchSight{Unit: u, name: name}
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

// look sees to the GPU once, and tells whether it stays pinned.
func (u *benchSight) look(ctx context.Context) (pinned bool, err error) {
	name := u.name
	held, over, err := u.pins().Hold(name, u.Host.Path(sysfsOf(name)), func() (string, error) { return u.holderOf(name) })
	if err != nil {
		return false, err
	}
	if over {
		_, err := u.Host.Run(ctx, host.Command{Deadline: startTime, Argv: []string{"systemd-run", "--quiet", "--no-block", "--collect",
			"--unit=concourse-gpu-bench-" + strings.ReplaceAll(name, ":", "-") + ".service", "--description=clocks of GPU " + name + " given back",
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

// EndBench gives a GPU back whose task is over; with end whoever has it.
func (u *Unit) EndBench(w io.Writer, name string, end bool) error {
	was, err := u.pins().Restore(name, u.Host.Path(sysfsOf(name)), func() (string, error) {
		if end {
			return "", nil
		}
		return u.holderOf(name)
	})
	if err != nil || was == nil {
		return err
	}
	fmt.Fprintf(w, "GPU %s: its clocks are its own again, container %s had fixed them\n", name, was.Container)
	was.MarkInvalid("its clocks were given back", u.Host.Now())
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
		if err != nil { // it is being written; the next look knows more
			o = &clockpin.Record{Task: r.Task}
		}
		if o != nil && o.Task == r.Task {
			records = append(records, *o)
		}
	}
	return clockpin.WriteVerdict(u.Host.Path(r.Bundle), clockpin.VerdictOf(records))
}
