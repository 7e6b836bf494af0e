package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/healthcheck"
	"concourse-ci-machine/internal/charm/machine"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/pool/quarantine"
)

const (
	// startTime is for systemd to take a service on.
	startTime = 3 * time.Second
	// proofTime is more than a proof takes with its deadline and the end of what it left.
	proofTime = quarantine.ProofDeadline + 5*time.Minute
)

// gpuProof is the option as the last hook knew it. A wrong value is an error: it says
// that there is to be a proof, and no GPU is returned without.
func (u *Unit) gpuProof() (command string, wrong error) {
	facts, err := model.Load(u.Host.Root)
	if err != nil {
		return "", nil // no hook ran yet
	}
	cfg, problems := config.Parse(facts.Config, facts.Secrets)
	for _, p := range problems {
		if p.Option == "gpu-proof" {
			wrong = errors.New(p.String())
		}
	}
	return cfg.GPUProof, wrong
}

// seeProofs puts into a look what is known of the proofs that GPUs wait for.
func (u *Unit) seeProofs(l *quarantine.Look, r quarantine.Record) error {
	var wrong error
	if l.Proof, wrong = u.gpuProof(); l.Proof == "" {
		return nil
	}
	var failed []error
	for _, g := range r.GPUs {
		if g.State == quarantine.InService {
			continue
		}
		p, err := healthcheck.Read(u.Host.Root, g.Name)
		if wrong != nil && !p.Running {
			p = notRun(g.Name, l.Proof, wrong, l.At)
		}
		l.Proofs, failed = append(l.Proofs, p), append(failed, err)
	}
	return errors.Join(failed...)
}

func notRun(name, command string, why error, at time.Time) quarantine.Proof {
	return quarantine.Proof{Name: name, Command: command, Began: at, Ended: at, End: quarantine.NotRun, Reason: why.Error()}
}

// beginProof starts RecordProof in a service of its own: Pebble gives a look seconds, and
// the rights that it runs with make no container.
func (u *Unit) beginProof(ctx context.Context, w io.Writer, name, command string) error {
	fmt.Fprintf(w, "GPU %s: gpu-proof begins\n", name)
	_, err := u.Host.Run(ctx, host.Command{Deadline: startTime, Argv: []string{"systemd-run", "--quiet", "--no-block", "--collect",
		"--unit=concourse-gpu-proof-" + strings.ReplaceAll(name, ":", "-") + ".service", "--description=gpu-proof on GPU " + name,
		fmt.Sprintf("--property=RuntimeMaxSec=%.0f", proofTime.Seconds()), "--", role.BinDir + "/dispatch", "gpu", "proof", name}})
	if err != nil {
		return errors.Join(err, healthcheck.Write(u.Host.Root, notRun(name, command, err, u.Host.Now().UTC())))
	}
	return nil
}

// prove runs the proof of a GPU, whose lock the caller has.
func (u *Unit) prove(ctx context.Context, name, command string) (quarantine.Proof, string) {
	job, err := healthcheck.Prepare(u.Host.Root, name, command)
	if err != nil {
		return notRun(name, command, err, u.Host.Now().UTC()), ""
	}
	job.Recursive = machine.Observe(u.Host.Root).RecursiveReadonly
	return job.Run(ctx, u.Host, quarantine.ProofDeadline)
}

// RecordProof is what beginProof starts: it proves the GPU of this slot and writes down
// how that ended, for the next look.
func (u *Unit) RecordProof(ctx context.Context, w io.Writer, name string) error {
	r, err := quarantine.Read(u.Host.Root)
	if err != nil {
		return err
	}
	switch g := r.Find(name); {
	case g == nil:
		return fmt.Errorf("cannot prove GPU %q: it is not known", name)
	case g.State != quarantine.Proving:
		return nil // meanwhile it fell sick, or a person returned it
	}
	command, wrong := u.gpuProof()
	if command == "" || wrong != nil {
		return wrong
	}
	unlock, err := lockProof(u.Host.Root, "GPU "+name, name)
	if err != nil {
		return err
	}
	defer unlock()
	p, output := u.prove(ctx, name, command)
	if p.End != quarantine.NotRun {
		err = healthcheck.WriteOutput(u.Host.Root, name, output)
	}
	fmt.Fprintf(w, "GPU %s: %s\n", name, verdict(p))
	return errors.Join(err, healthcheck.Write(u.Host.Root, p))
}

func lockProof(r host.Root, label, name string) (func(), error) {
	unlock, err := healthcheck.Lock(r, name)
	if errors.Is(err, host.ErrLocked) {
		return nil, fmt.Errorf("cannot prove %s: gpu-proof runs on it already; gpu status has its end", label)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot prove %s: %w; run it with sudo", label, err)
	}
	return unlock, nil
}

// verdict is how a proof ended, in words.
func verdict(p quarantine.Proof) string {
	switch took := p.Ended.Sub(p.Began).Round(time.Second); {
	case p.End == quarantine.Passed:
		return fmt.Sprintf("gpu-proof ended with 0 after %s", took)
	case p.End == quarantine.NotRun:
		return "gpu-proof can't be run: " + p.Reason
	case p.Late:
		return fmt.Sprintf("gpu-proof did not end within %s", quarantine.ProofDeadline)
	default:
		return fmt.Sprintf("gpu-proof ended with %d after %s", p.Exit, took)
	}
}

// Prove runs the proof now, for a person, and shows what it writes. Nothing is decided
// by it: see gpu-return. A GPU in service is a task's at any moment, so that has to be
// withheld before.
func (u *Unit) Prove(ctx context.Context, w io.Writer, which string) error {
	r, err := quarantine.Read(u.Host.Root)
	if err != nil {
		return err
	}
	of, err := u.findServed(r, "prove", which)
	if err != nil {
		return err
	}
	if of.State == quarantine.InService {
		return fmt.Errorf("cannot prove %s: it is in service, so a task can get it at any moment; withhold it first: dispatch gpu withhold %d REASON", of, of.Index)
	}
	command, wrong := u.gpuProof()
	switch {
	case wrong != nil:
		return fmt.Errorf("cannot prove %s: %w", of, wrong)
	case command == "":
		return fmt.Errorf("cannot prove %s: the option gpu-proof names no program", of)
	}
	// Where the exporter does not answer nobody knows of tasks, and the person decides.
	seen, _ := gpuhealth.Look(ctx, u.Host, u.ExporterURL)
	for _, s := range seen {
		if s.Name == of.name && len(s.Users) > 0 {
			return fmt.Errorf("cannot prove %s: a task that had it before still has it open; dispatch gpu top shows which", of)
		}
	}
	unlock, err := lockProof(u.Host.Root, of.String(), of.name)
	if err != nil {
		return err
	}
	defer unlock()
	fmt.Fprintf(w, "%s: %s begins, which may take %s\n", of, command, quarantine.ProofDeadline)
	p, output := u.prove(ctx, of.name, command)
	fmt.Fprintf(w, "%s%s: %s\n", output, of, verdict(p))
	if p.End != quarantine.Passed {
		return fmt.Errorf("cannot rely on %s: %s", of, verdict(p))
	}
	return nil
}
