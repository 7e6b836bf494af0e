// Package watcher observes a unit's GPUs and their tasks: who leases which GPU, which GPUs
// are quarantined and why, and how tasks ended. It carries out the decisions of package
// quarantine. Look runs every few seconds without Juju. The commands to quarantine, return,
// check and release a GPU change the same record.
package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/workstation"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Look runs after each reading of the GPUs by their owner, rocm-exporter write-gpus, as root
// and without Juju. It decides which GPUs are quarantined, from the owner's report, and
// writes the result for the wrapper. Then it reports the leases to the exporter. Last it
// notifies tasks of failed GPUs. An error in one part does not stop the others. GPUs with
// fixed clocks come first, in separate processes, because a slow look must not delay the end
// of a setting.
func (u *Unit) Look(ctx context.Context, w io.Writer) error {
	began := u.startFixedClocks()
	seen, err := u.decide(ctx, w)
	err = errors.Join(began, err, u.reportIfLeased(ctx, w))
	if failed := u.notifyTasks(w, seen); failed != nil {
		fmt.Fprintln(w, failed)
	}
	return errors.Join(err, u.checkOptions())
}

// checkOptions returns an error for invalid options of a machine without a unit. A unit shows
// its own in its status.
func (u *Unit) checkOptions() error {
	if !u.onWorkstation() {
		return nil
	}
	return workstation.CheckOptions(u.Host.Root)
}

// reportIfLeased omits the remark on shared GPUs, which is for people.
func (u *Unit) reportIfLeased(ctx context.Context, w io.Writer) error {
	l, err := u.readLeases()
	if err != nil || l == nil {
		return err
	}
	return u.ReportLeases(ctx, w)
}

// readSeen returns the last reading of the GPUs.
func (u *Unit) readSeen() ([]quarantine.Reading, error) {
	return gpuhealth.ReadSeen(u.Host.Root, role.GPUReport, u.Host.Now())
}

// decide reads the state of the GPUs, changes the record, and starts what is due. It also
// returns the reading.
func (u *Unit) decide(ctx context.Context, w io.Writer) ([]quarantine.Reading, error) {
	l := quarantine.Look{}
	l.Boot, l.Driver = quarantine.CurrentLoad(u.Host.Root)
	worker, cancel := context.WithTimeout(ctx, containersTimeout)
	defer cancel()
	seen, err := u.readSeen()
	if l.GPUs = seen; err != nil {
		l.Unknown = err.Error()
	}
	u.addTasks(&l)
	if known, err := quarantine.RecordFile.Read(u.Host.Root); err == nil {
		l.Exits = u.fetchExits(worker, known, l)
	}
	var unread error
	var due []string
	open := ""
	err = u.changeRecord(func(r quarantine.Record) (quarantine.Record, error) {
		l.At, l.Policy = u.Host.Now().UTC(), u.quarantinePolicy(r)
		unread = u.addHealthChecks(&l, r)
		open = u.addNodes(&l, r)
		u.addSoftware(&l, r)
		now := quarantine.Decide(r, l)
		due = now.DueHealthChecks()
		if err := u.saveEvidence(w, r, now); err != nil {
			return r, err
		}
		for _, g := range now.GPUs {
			was := r.Find(g.Name)
			if was == nil || was.State != g.State {
				fmt.Fprintf(w, "GPU %d (%s): %s: %s\n", g.Index, g.Name, g.State, g.Reason)
			}
			if warning := g.WarningText(); warning != "" && (was == nil || was.WarningText() == "") {
				fmt.Fprintf(w, "GPU %d (%s): warning: %s\n", g.Index, g.Name, warning)
			}
		}
		return now, nil
	})
	err = errors.Join(err, unread)
	if open != "" {
		err = errors.Join(err, u.startProbe(open))
	}
	err = errors.Join(err, u.startReset())
	for _, name := range due {
		err = errors.Join(err, u.startHealthCheck(ctx, w, name, l.HealthCheck))
	}
	return seen, err
}

// addSoftware adds the versions with which the GPUs run. They change only with a load of the
// driver.
func (u *Unit) addSoftware(l *quarantine.Look, r quarantine.Record) {
	for i := range l.GPUs {
		g := &l.GPUs[i]
		known := r.Find(g.Address())
		if known == nil || known.Resets == nil || r.Boot != l.Boot || r.Driver != l.Driver {
			g.Software = quarantine.SoftwareOf(u.Host.Root, g.PCI)
		}
	}
}

// quarantinePolicy returns gpu-quarantine as of the last hook. An invalid option keeps the
// previous policy.
func (u *Unit) quarantinePolicy(r quarantine.Record) quarantine.Policy {
	before := r.Policy
	before = cmp.Or(before, quarantine.Auto)
	cfg, ok := u.option("gpu-quarantine")
	if !ok {
		return before
	}
	if cfg.GPU.Quarantine == quarantine.Reset {
		return quarantine.Auto
	}
	return cfg.GPU.Quarantine
}

// option returns the configuration. known is false if the option name is invalid, or without
// a configuration.
func (u *Unit) option(name string) (cfg config.Config, known bool) {
	cfg, problems, err := u.options()
	known = err == nil && !slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Option == name })
	return cfg, known
}

// options returns the configuration of the last hook, on a machine without a unit that of
// its administrator.
func (u *Unit) options() (config.Config, []config.Problem, error) {
	facts, err := model.Load(u.Host.Root)
	if err == nil && u.onWorkstation() {
		facts.Config, err = workstation.Options(u.Host.Root)
	}
	if err != nil {
		return config.Config{}, nil, err
	}
	cfg, problems := facts.Options()
	return cfg, problems, nil
}

// onWorkstation reports whether the machine has no unit and gpukit owns its GPUs.
func (u *Unit) onWorkstation() bool {
	if u.Commands.Program != wellknown.GPUKit {
		return false
	}
	unit, err := workstation.UnitOf(u.Host.Root)
	return err == nil && unit == ""
}

// place returns the word for the machine in texts.
func (u *Unit) place() string {
	if u.onWorkstation() {
		return "machine"
	}
	return "unit"
}

// Unit holds the machine with the watched GPUs.
type Unit struct {
	Host      host.Host
	WorkerURL string // the worker's list of containers; "" for its port, on the machine's own root only
	// WebMetricsURLs has the metrics of the webs' exporters. Without any it is port 9358 of
	// the webs, on the machine's own root only.
	WebMetricsURLs []string
	Commands       wellknown.Commands
	// Start starts this program with arguments in the background. nil disables it.
	Start func(args ...string) error
	// Signal ends leftover processes of tasks. nil sends the kernel's signals, on the
	// machine's own root only.
	Signal func(lease.Process, unix.Signal) error
}
