package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/worker"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/pool/lease"
)

// notLeased returns gpu-sharing as the last hook had it, and why the wrapper leases no GPU.
func (u *Unit) notLeased() (sharing, why string) {
	if cfg, known := u.option("gpu-sharing"); known && cfg.GPUSharing == config.Exclusive {
		return "exclusive", "gpu-sharing=exclusive: no GPU is leased, as this unit has none that tasks can use; see juju status"
	}
	return "shared", "gpu-sharing=shared: GPUs are not leased"
}

// leasedGPU is one of the GPUs that the wrapper leases.
type leasedGPU struct {
	name      string // of its lease, see gpu.Slot
	index     int    // the number that gpu-device-ids takes; -1 for a GPU that is gone
	pci       string
	partition int
	id        string // GPU-<unique id>, "" for none
}

// String is the GPU as texts for people name it.
func (g leasedGPU) String() string {
	names := []string{g.id, g.pci}
	if g.partition > 0 {
		names = append(names, fmt.Sprintf("partition %d", g.partition))
	}
	switch names = slices.DeleteFunc(names, func(n string) bool { return n == "" }); {
	case g.index < 0:
		return "GPU " + g.name
	case len(names) == 0:
		return fmt.Sprintf("GPU %d", g.index)
	}
	return fmt.Sprintf("GPU %d (%s)", g.index, strings.Join(names, ", "))
}

// leased are the unit's leases as its wrapper has them, which is what counts:
// options that no hook has acted on yet have no effect on tasks either. on is
// false if it leases none, see notLeased.
func (u *Unit) leased() (l lease.Leases, gpus []leasedGPU, on bool, err error) {
	data, err := u.Host.ReadFile(oci.DefaultConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil, false, nil
	case errors.Is(err, fs.ErrPermission):
		return l, nil, false, fmt.Errorf("cannot read who leases the GPUs: %s is readable by root only; run it with sudo", oci.DefaultConfig)
	case err != nil:
		return l, nil, false, err
	}
	var config oci.Config
	if err := json.Unmarshal(data, &config); err != nil {
		return l, nil, false, fmt.Errorf("cannot decode %s: %w; the next hook writes it anew", oci.DefaultConfig, err)
	}
	if config.Leases == nil {
		return l, nil, false, nil
	}
	inv, err := gpu.Discover(u.Host.Root)
	if err != nil {
		return l, nil, false, err
	}
	l.GPUs = config.LeaseNames()
	for _, name := range l.GPUs {
		gpus = append(gpus, leasedOf(inv, name))
	}
	l.Dir = u.Host.Path(config.Leases.Dir)
	l.Proc, l.Cgroup, l.Euid, l.Now = u.Host.Path("/proc"), u.Host.Path("/sys/fs/cgroup"), uint32(os.Geteuid()), u.Host.Now
	return l, gpus, true, nil
}

// leasedOf finds the GPU that is leased by this name.
func leasedOf(inv gpu.Inventory, name string) leasedGPU {
	for _, v := range gpu.Vendors() {
		for i, g := range inv.Of(v) {
			if gpu.Slot(g.PCI, g.Partition) != name {
				continue
			}
			found := leasedGPU{name: name, index: i, pci: g.PCI, partition: g.Partition}
			if g.UniqueID != "" {
				found.id = "GPU-" + g.UniqueID
			}
			return found
		}
	}
	return leasedGPU{name: name, index: -1}
}

// leaseReport is what is known of the leases now, and what it is made of.
func (u *Unit) leaseReport(l lease.Leases, gpus []leasedGPU) (monitor.LeaseReport, []lease.State, error) {
	r := monitor.LeaseReport{At: u.Host.Now().UTC(), GPUs: []monitor.LeasedGPU{}}
	states, n, err := l.Read()
	if err != nil {
		return r, nil, err
	}
	for i, s := range states {
		one := monitor.LeasedGPU{Name: s.GPU, PCI: gpus[i].pci, Held: s.Held, Doubt: s.Doubt}
		one.Clocks = u.clocks(s.GPU)
		if gpus[i].index >= 0 {
			one.Index = &gpus[i].index
		}
		if s.Held {
			one.Kind, one.Container, one.Engine, one.PID = s.Kind, s.ShortName(), s.Engine, s.PID
			if namespace, pod, container := s.Pod(); pod != "" {
				one.Namespace, one.Pod, one.Container = namespace, pod, container
			}
			if since := s.Since.UTC(); !s.Since.IsZero() {
				one.Since = &since
			}
		}
		r.GPUs = append(r.GPUs, one)
	}
	r.Counters = monitor.LeaseCounters{Granted: n.Granted, Busy: n.Busy, Impossible: n.Impossible, HeldSeconds: float64(n.HeldMS) / 1000}
	return r, states, nil
}

// clocks are a GPU's where they are fixed.
func (u *Unit) clocks(name string) *monitor.Clocks {
	r, err := u.pins().ReadCurrent(name)
	switch {
	case err != nil: // it may be at being written
		return &monitor.Clocks{Why: err.Error()}
	case r == nil:
		return nil
	}
	c := monitor.Clocks{Level: r.Level, Container: r.Container, Since: r.Since.UTC()}
	if last := len(r.InvalidSpans) - 1; last >= 0 {
		c.Why = r.InvalidSpans[last].Reason
	}
	return &c
}

// endLeft ends what ended tasks left behind, so that their GPUs are free.
func (u *Unit) endLeft(w io.Writer, l lease.Leases) error {
	if cfg, ok := u.option("gpu-leftovers"); ok && cfg.GPULeftovers == "keep" {
		return nil
	}
	signal := u.Signal
	if signal == nil {
		if !u.Host.Real() {
			return nil
		}
		signal = l.Signal
	}
	done, err := l.EndRemaining(func(p lease.Process, sig unix.Signal) error {
		if err := signal(p, sig); err != nil {
			return fmt.Errorf("process %d: %w", p.PID, err)
		}
		return nil
	})
	for _, d := range done {
		processes, hold := "1 process", "it holds"
		if d.Processes > 1 {
			processes, hold = fmt.Sprintf("%d processes", d.Processes), "they hold"
		}
		fmt.Fprintf(w, "container %s: sent %s to %s that its task left behind, as %s GPU %s\n", d.Container, unix.SignalName(d.Signal), processes, hold, strings.Join(d.GPUs, ", "))
	}
	if err != nil {
		return fmt.Errorf("cannot end what tasks left behind: %w", err)
	}
	return nil
}

// ReportLeases ends what ended tasks left behind, which Concourse no longer knows of. Then it
// writes LeaseReport for the exporter, which may not look at the
// leases itself: who can open their files can also lock them, and hold up tasks.
// Pebble has it written each time that it looks at the GPUs.
func (u *Unit) ReportLeases(_ context.Context, w io.Writer) error {
	l, gpus, on, err := u.leased()
	if err != nil {
		return err
	}
	if !on {
		if err := u.Host.Remove(worker.LeaseReport); err != nil {
			return err
		}
		_, why := u.notLeased()
		_, err := fmt.Fprintln(w, why)
		return err
	}
	failed := u.endLeft(w, l)
	r, _, err := u.leaseReport(l, gpus)
	if err != nil {
		return errors.Join(failed, err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return errors.Join(failed, u.Host.WriteFile(worker.LeaseReport, append(data, '\n'), 0o644))
}

// clock is a time as texts for people have it, with how long ago it was.
func clock(t, now time.Time) string {
	return fmt.Sprintf("%s (%s)", t.UTC().Format("2006-01-02 15:04:05 UTC"), now.Sub(t).Truncate(time.Second))
}
