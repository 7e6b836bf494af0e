package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/healthcheck"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/workstation"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

const (
	// startTimeout bounds the start of a systemd service.
	startTimeout = 3 * time.Second
	// healthCheckTimeout is longer than a health check with its deadline and the removal of its
	// leftovers.
	healthCheckTimeout = quarantine.HealthCheckDeadline + 5*time.Minute
)

// healthCheckOption returns gpu-health-check. An invalid value is an error: a health check is
// required then, and no GPU returns without one.
func (u *Unit) healthCheckOption() (command string, invalid error) {
	cfg, problems, err := u.options()
	if err != nil {
		return "", nil // no hook has run
	}
	for _, p := range problems {
		if p.Option == "gpu-health-check" {
			invalid = errors.New(p.String())
		}
	}
	return cfg.GPU.HealthCheck, invalid
}

// addHealthChecks adds the health checks of GPUs to a look.
func (u *Unit) addHealthChecks(l *quarantine.Look, r quarantine.Record) error {
	var invalid error
	if l.HealthCheck, invalid = u.healthCheckOption(); l.HealthCheck == "" {
		return nil
	}
	var failed []error
	for _, g := range r.GPUs {
		if g.State == quarantine.InService {
			continue
		}
		p, err := healthcheck.Read(u.Host.Root, g.Name)
		if invalid != nil && !p.Running {
			p = notRunHealthCheck(g.Name, l.HealthCheck, invalid, l.At)
		}
		l.HealthChecks, failed = append(l.HealthChecks, p), append(failed, err)
	}
	return errors.Join(failed...)
}

// program returns the file of this program after its installation.
func (u *Unit) program() string {
	if u.onWorkstation() {
		return "/usr/bin/" + wellknown.GPUKit
	}
	return role.BinDir + "/" + wellknown.Dispatch
}

func notRunHealthCheck(name, command string, why error, at time.Time) quarantine.HealthCheck {
	return quarantine.HealthCheck{
		Name: name, Command: command, Began: at, Ended: at, End: quarantine.NotRun, Reason: why.Error(),
	}
}

// startHealthCheck starts RecordHealthCheck in a separate service: a look ends after seconds, and
// its service has no rights to create a container.
func (u *Unit) startHealthCheck(ctx context.Context, w io.Writer, name, command string) error {
	fmt.Fprintf(w, "GPU %s: gpu-health-check begins\n", name)
	_, err := u.Host.Run(ctx, host.Command{
		Deadline: startTimeout, Argv: []string{"systemd-run", "--quiet", "--no-block", "--collect",
			"--unit=concourse-gpu-health-check-" + strings.ReplaceAll(name, ":", "-") + ".service",
			"--description=gpu-health-check on GPU " + name,
			fmt.Sprintf("--property=RuntimeMaxSec=%.0f", healthCheckTimeout.Seconds()), "--",
			u.program(), "gpu", "record-check", name}})
	if err != nil {
		return errors.Join(err,
			healthcheck.Write(u.Host.Root, notRunHealthCheck(name, command, err, u.Host.Now().UTC())))
	}
	return nil
}

// runHealthCheck runs the health check of a GPU. The caller holds the GPU's lock.
func (u *Unit) runHealthCheck(ctx context.Context, name, command string) (quarantine.HealthCheck, string) {
	find := healthcheck.Runtime
	if u.onWorkstation() {
		find = workstation.Runtime
	}
	var job healthcheck.Job
	runtime, err := find(u.Host.Root)
	if err == nil {
		job, err = healthcheck.Prepare(u.Host.Root, runtime, name, command)
	}
	if err != nil {
		return notRunHealthCheck(name, command, err, u.Host.Now().UTC()), ""
	}
	job.Recursive = machine.Observe(u.Host.Root).RecursiveReadonly
	return job.Run(ctx, u.Host, quarantine.HealthCheckDeadline)
}

// RecordHealthCheck runs in the service of startHealthCheck. It runs the health check of the GPU and
// writes the result for the next look.
func (u *Unit) RecordHealthCheck(ctx context.Context, w io.Writer, name string) error {
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	if err != nil {
		return err
	}
	switch g := r.Find(name); {
	case g == nil:
		return fmt.Errorf("cannot check GPU %q: it is not known", name)
	case g.State != quarantine.OnProbation:
		return nil // it failed again, or a person returned it
	}
	command, invalid := u.healthCheckOption()
	if command == "" || invalid != nil {
		return invalid
	}
	unlock, err := lockHealthCheck(u.Host.Root, "GPU "+name, name)
	if err != nil {
		return err
	}
	defer unlock()
	p, output := u.runHealthCheck(ctx, name, command)
	if p.End != quarantine.NotRun {
		err = healthcheck.WriteOutput(u.Host.Root, name, output)
	}
	fmt.Fprintf(w, "GPU %s: %s\n", name, verdict(p))
	return errors.Join(err, healthcheck.Write(u.Host.Root, p))
}

func lockHealthCheck(r host.Root, label, name string) (func(), error) {
	unlock, err := healthcheck.Lock(r, name)
	if errors.Is(err, host.ErrLocked) {
		return nil, fmt.Errorf("cannot check %s: gpu-health-check runs on it already; gpu status has its end", label)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot check %s: %w", label, err)
	}
	return unlock, nil
}

// verdict returns the result of a health check in words.
func verdict(p quarantine.HealthCheck) string {
	switch took := p.Ended.Sub(p.Began).Round(time.Second); {
	case p.End == quarantine.Passed:
		return fmt.Sprintf("gpu-health-check ended with 0 after %s", took)
	case p.End == quarantine.NotRun:
		return "gpu-health-check can't be run: " + p.Reason
	case p.Late:
		return fmt.Sprintf("gpu-health-check did not end within %s", quarantine.HealthCheckDeadline)
	default:
		return fmt.Sprintf("gpu-health-check ended with %d after %s", p.Exit, took)
	}
}

// RunHealthCheck runs the health check now, and shows its output. The result changes no state: see
// return-gpu. The GPU must be quarantined, because a GPU in service can be leased at any
// moment.
func (u *Unit) RunHealthCheck(ctx context.Context, w io.Writer, which string) error {
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	if err != nil {
		return err
	}
	g, err := u.findRecorded(r, "check", which)
	if err != nil {
		return err
	}
	if g.Service.State == quarantine.InService {
		return fmt.Errorf(
			"cannot check %s: it is in service, so a task can get it at any moment; quarantine it first: %s "+
				"gpu quarantine %d REASON",
			g, u.Commands.Name(), g.Service.Index)
	}
	command, invalid := u.healthCheckOption()
	switch {
	case invalid != nil:
		return fmt.Errorf("cannot check %s: %w", g, invalid)
	case command == "":
		return fmt.Errorf("cannot check %s: no program is set; run: %s", g,
			u.Commands.SetOption("gpu-health-check=<program>"))
	}
	// Without a current reading, tasks are unknown, and the person decides.
	seen, _ := u.readSeen()
	for _, s := range seen {
		if s.Address() == g.Address() && len(s.Users) > 0 {
			return fmt.Errorf(
				"cannot check %s: a task that had it before still has it open; %s gpu top shows which",
				g, u.Commands.Name())
		}
	}
	unlock, err := lockHealthCheck(u.Host.Root, g.String(), g.Address())
	if err != nil {
		return err
	}
	defer unlock()
	fmt.Fprintf(w, "%s: %s begins, which may take %s\n", g, command, quarantine.HealthCheckDeadline)
	p, output := u.runHealthCheck(ctx, g.Address(), command)
	fmt.Fprintf(w, "%s%s: %s\n", output, g, verdict(p))
	if p.End != quarantine.Passed {
		return fmt.Errorf("cannot rely on %s: %s", g, verdict(p))
	}
	return nil
}
