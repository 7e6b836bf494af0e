package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/workstation"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/wrapperfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// sharingState returns gpu-sharing as of the last hook, and why the wrapper leases no GPU.
func (u *Unit) sharingState() (sharing, why string) {
	if u.onWorkstation() {
		return "shared", "this machine has no AMD GPU that can be leased; see " + u.Commands.Name() + " gpu list"
	}
	if cfg, known := u.option("gpu-sharing"); known && cfg.GPU.Sharing == config.Exclusive {
		return "exclusive", "gpu-sharing=exclusive: no GPU is leased, as this unit has none that tasks can use; " +
			"see " + u.Commands.ShowStatus()
	}
	return "shared", "gpu-sharing=shared: GPUs are not leased"
}

// unitLeases holds the unit's leases with the names of their GPUs.
type unitLeases struct {
	lease.Leases
	gpus   []gpu.Slot // in the order of Leases.GPUs
	shared bool       // containers lease none of them, only runs do
}

// readLeases returns the leases in the wrapper's config, because options have no effect on
// tasks before a hook applies them. On a machine without a unit, runs lease GPUs without the
// wrapper. It returns nil if no GPU is leased, see sharingState.
func (u *Unit) readLeases() (*unitLeases, error) {
	config, err := wrapperfile.File.Read(u.Host.Root)
	switch {
	case errors.Is(err, statefile.ErrDamaged):
		return nil, fmt.Errorf("%w; %s writes it again", err, u.writer())
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("cannot read who leases the GPUs: %s is readable by root only; run it with sudo",
			oci.DefaultConfig)
	case err != nil:
		return nil, err
	}
	shared := config.Leases == nil
	if shared && u.onWorkstation() {
		if config, err = workstation.Pool(u.Host.Root); err != nil {
			return nil, err
		}
	}
	if config.Leases == nil || len(config.GPUs) == 0 {
		return nil, nil
	}
	inv, err := gpu.Discover(u.Host.Root)
	if err != nil {
		return nil, err
	}
	l := &unitLeases{Leases: lease.Leases{
		GPUs: config.GPUNames(), Dir: u.Host.Path(config.Leases.Dir), Proc: u.Host.Path("/proc"),
		Cgroup: u.Host.Path("/sys/fs/cgroup"), Euid: uint32(os.Geteuid()), Now: u.Host.Now,
	}, shared: shared}
	for _, name := range l.GPUs {
		l.gpus = append(l.gpus, findSlot(inv, name))
	}
	return l, nil
}

// writer returns who writes the wrapper's config again.
func (u *Unit) writer() string {
	if u.onWorkstation() {
		return "sudo " + wellknown.GPUKit + " cdi refresh"
	}
	return "the next hook"
}

// findSlot returns the GPU with this address, with the index gpu.Missing if the unit lacks it.
func findSlot(inv gpu.Inventory, address string) gpu.Slot {
	if g := inv.Find(address); g != nil {
		return g.Slot
	}
	return gpu.MissingSlot(address)
}

// leaseReport returns the current leases for the exporter, and their states.
func (u *Unit) leaseReport(l *unitLeases) (pool.Report, []lease.State, error) {
	at := u.Host.Now().UTC()
	states, n, err := l.Read()
	if err != nil {
		return pool.Report{}, nil, err
	}
	return pool.NewReport(at, l.gpus, states, n, u.clocks), states, nil
}

// clocks returns the fixed clocks of a GPU, or nil.
func (u *Unit) clocks(name string) *pool.Clocks {
	r, err := u.fixedClocks().ReadCurrent(name)
	switch {
	case err != nil: // it may be being written
		return &pool.Clocks{Why: err.Error()}
	case r == nil:
		return nil
	}
	c := pool.Clocks{Level: r.Level, Container: r.Container, Since: r.Since.UTC()}
	if last := len(r.InvalidSpans) - 1; last >= 0 {
		c.Why = r.InvalidSpans[last].Reason
	}
	return &c
}

// endLeftovers ends the processes that ended tasks left behind, to free their GPUs.
func (u *Unit) endLeftovers(w io.Writer, l lease.Leases) error {
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
		whose, hold := "task", "it holds"
		if rungroup.IsRun(d.Container) {
			whose = "command"
		}
		if d.Processes > 1 {
			hold = "they hold"
		}
		fmt.Fprintf(w, "%s: sent %s to %s that its %s left behind, as %s GPU %s\n", holderName(d.Container),
			unix.SignalName(d.Signal), units.Count(max(1, d.Processes), "process"), whose, hold,
			strings.Join(d.GPUs, ", "))
	}
	if err != nil {
		return fmt.Errorf("cannot end what tasks left behind: %w", err)
	}
	return nil
}

// ReportLeases ends the leftovers of tasks, which Concourse no longer tracks. Then it
// writes the pool.Report for the exporter. The exporter may not read the leases itself: a
// process that can open their files can also lock them, and block tasks. Pebble runs this
// before each look.
func (u *Unit) ReportLeases(_ context.Context, w io.Writer) error {
	l, err := u.readLeases()
	if err != nil {
		return err
	}
	if l == nil {
		if err := u.Host.Remove(pool.ReportFile); err != nil {
			return err
		}
		_, why := u.sharingState()
		_, err := fmt.Fprintln(w, why)
		return err
	}
	failed := u.endLeftovers(w, l.Leases)
	r, _, err := u.leaseReport(l)
	if err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, pool.LeaseFile.Write(u.Host.Root, r))
}

// formatTime returns a time and its age for texts.
func formatTime(t, now time.Time) string {
	return fmt.Sprintf("%s (%s)", t.UTC().Format("2006-01-02 15:04:05 UTC"), now.Sub(t).Truncate(time.Second))
}

// Release frees a GPU with a damaged lease or a lease in doubt. A running task keeps its
// GPU unless force is set.
func (u *Unit) Release(w io.Writer, which string, force bool) error {
	l, err := u.readLeases()
	if err != nil {
		return err
	}
	if l == nil {
		_, why := u.sharingState()
		return fmt.Errorf("cannot release GPU %q: %s", which, why)
	}
	i, err := u.findGPU(l.gpus, "release", "leases", which)
	if err != nil {
		return err
	}
	s, err := l.Release(i, force)
	switch {
	case err != nil && s.Held && !force && s.Container != "":
		return fmt.Errorf(
			"cannot release %s: %s holds it%s%s; force=true (--force) frees the lease anyway, but "+
				"the holder can still open the GPU",
			l.gpus[i], s.Holder(), sinceText(s, u.Host.Now()), endHint(s))
	case err != nil:
		return err
	case s.Held && s.Container == "":
		_, err = fmt.Fprintf(w,
			"%s is released; its record was damaged, so the holder is unknown and may still use the GPU\n",
			l.gpus[i])
	case s.Held:
		_, err = fmt.Fprintf(w,
			"%s is released, which %s held%s. It can still open the GPU: until it ends, the next one shares it\n",
			l.gpus[i], s.Holder(), sinceText(s, u.Host.Now()))
	case s.Container == "":
		_, err = fmt.Fprintf(w, "%s is free, there was nothing to release\n", l.gpus[i])
	default:
		_, err = fmt.Fprintf(w, "%s is free; %s had it last\n", l.gpus[i], s.Holder())
	}
	return err
}

// endHint returns how to end a holder.
func endHint(s lease.State) string {
	see := ""
	if look := s.InspectCommand(); look != "" {
		see = " (" + look + " shows it)"
	}
	switch s.Kind {
	case lease.Pod:
		return "; delete the pod" + see
	case lease.Claimed:
		return "; delete its pods" + see
	case lease.Container:
		return "; stop the container" + see
	case lease.Run:
		return fmt.Sprintf("; end its process %d", s.PID)
	}
	return ", and it runs or left processes behind; end the build: fly -t <target> containers shows which one " +
		"has that handle, fly -t <target> abort-build ends it, as does the web page"
}

func sinceText(s lease.State, now time.Time) string {
	if s.Since.IsZero() {
		return ""
	}
	return " since " + formatTime(s.Since, now)
}

// findGPU finds a GPU by the number that gpu-device-ids uses, the slot, the unique id, or
// the PCI address of a GPU without partitions. verb is the action on the GPU, and has the
// unit's relation to GPUs, for messages.
func (u *Unit) findGPU(gpus []gpu.Slot, verb, has, which string) (int, error) {
	which = strings.TrimSpace(which)
	var found, known []string
	at := -1
	for i, g := range gpus {
		known = append(known, strings.TrimPrefix(g.String(), "GPU "))
		here := g.Index != gpu.Missing
		if strings.EqualFold(which, g.Address()) || here && (which == fmt.Sprint(g.Index) ||
			strings.EqualFold(which, g.ID()) && g.ID() != "" || strings.EqualFold(which, g.PCI)) {
			found, at = append(found, g.String()), i
		}
	}
	switch len(found) {
	case 1:
		return at, nil
	case 0:
		return -1, fmt.Errorf("cannot %s GPU %q: this %s %s %s", verb, which, u.place(), has,
			strings.Join(known, ", "))
	}
	return -1, fmt.Errorf("cannot %s GPU %q: that is %s; name one of them", verb, which, strings.Join(found, " and "))
}
