package gpuwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/gpuproof"
	"concourse-ci-machine/internal/gpuservice"
	"concourse-ci-machine/internal/gpustate"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/machine"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/role"
)

const (
	// startTime is for systemd to take a service on.
	startTime = 3 * time.Second
	// proofTime is more than a proof takes with its deadline and the end of what it left.
	proofTime = gpuservice.ProofDeadline + 5*time.Minute
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
func (u *Unit) seeProofs(l *gpuservice.Look, r gpuservice.Record) error {
	var wrong error
	if l.Proof, wrong = u.gpuProof(); l.Proof == "" {
		return nil
	}
	var failed []error
	for _, g := range r.GPUs {
		if g.State == gpuservice.InService {
			continue
		}
		p, err := gpuproof.Read(u.Host.Root, g.Name)
		if wrong != nil && !p.Running {
			p = notRun(g.Name, l.Proof, wrong, l.At)
		}
		l.Proofs, failed = append(l.Proofs, p), append(failed, err)
	}
	return errors.Join(failed...)
}

func notRun(name, command string, why error, at time.Time) gpuservice.Proof {
	return gpuservice.Proof{Name: name, Command: command, Began: at, Ended: at, End: gpuservice.NotRun, Why: why.Error()}
}

// beginProof starts RecordProof in a service of its own: Pebble gives a look seconds, and
// the rights that it runs with make no container.
func (u *Unit) beginProof(ctx context.Context, w io.Writer, name, command string) error {
	fmt.Fprintf(w, "GPU %s: gpu-proof begins\n", name)
	_, err := u.Host.Run(ctx, host.Command{Deadline: startTime, Argv: []string{"systemd-run", "--quiet", "--no-block", "--collect",
		"--unit=concourse-gpu-proof-" + strings.ReplaceAll(name, ":", "-") + ".service", "--description=gpu-proof on GPU " + name,
		fmt.Sprintf("--property=RuntimeMaxSec=%.0f", proofTime.Seconds()), "--", role.BinDir + "/dispatch", "gpu", "proof", name}})
	if err != nil {
		return errors.Join(err, gpuproof.Write(u.Host.Root, notRun(name, command, err, u.Host.Now().UTC())))
	}
	return nil
}

// prove runs the proof of a GPU, whose lock the caller has.
func (u *Unit) prove(ctx context.Context, name, command string) (gpuservice.Proof, string) {
	job, err := gpuproof.Prepare(u.Host.Root, name, command)
	if err != nil {
		return notRun(name, command, err, u.Host.Now().UTC()), ""
	}
	job.Recursive = machine.Observe(u.Host.Root).RecursiveReadonly
	return job.Run(ctx, u.Host, gpuservice.ProofDeadline)
}

// RecordProof is what beginProof starts: it proves the GPU of this slot and writes down
// how that ended, for the next look.
func (u *Unit) RecordProof(ctx context.Context, w io.Writer, name string) error {
	r, err := gpuservice.Read(u.Host.Root)
	if err != nil {
		return err
	}
	switch g := r.Find(name); {
	case g == nil:
		return fmt.Errorf("cannot prove GPU %q: it is not known", name)
	case g.State != gpuservice.Proving:
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
	if p.End != gpuservice.NotRun {
		err = gpuproof.WriteOutput(u.Host.Root, name, output)
	}
	fmt.Fprintf(w, "GPU %s: %s\n", name, verdict(p))
	return errors.Join(err, gpuproof.Write(u.Host.Root, p))
}

func lockProof(r host.Root, label, name string) (func(), error) {
	unlock, err := gpuproof.Lock(r, name)
	if errors.Is(err, host.ErrLocked) {
		return nil, fmt.Errorf("cannot prove %s: gpu-proof runs on it already; gpu status has its end", label)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot prove %s: %w; run it with sudo", label, err)
	}
	return unlock, nil
}

// verdict is how a proof ended, in words.
func verdict(p gpuservice.Proof) string {
	switch took := p.Ended.Sub(p.Began).Round(time.Second); {
	case p.End == gpuservice.Passed:
		return fmt.Sprintf("gpu-proof ended with 0 after %s", took)
	case p.End == gpuservice.NotRun:
		return "gpu-proof can't be run: " + p.Why
	case p.Late:
		return fmt.Sprintf("gpu-proof did not end within %s", gpuservice.ProofDeadline)
	default:
		return fmt.Sprintf("gpu-proof ended with %d after %s", p.Exit, took)
	}
}

// Prove runs the proof now, for a person, and shows what it writes. Nothing is decided
// by it: see gpu-return. A GPU in service is a task's at any moment, so that has to be
// withheld before.
func (u *Unit) Prove(ctx context.Context, w io.Writer, which string) error {
	r, err := gpuservice.Read(u.Host.Root)
	if err != nil {
		return err
	}
	of, err := u.findServed(r, "prove", which)
	if err != nil {
		return err
	}
	if of.State == gpuservice.InService {
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
	seen, _ := gpustate.Look(ctx, u.Host, u.ExporterURL)
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
	fmt.Fprintf(w, "%s: %s begins, which may take %s\n", of, command, gpuservice.ProofDeadline)
	p, output := u.prove(ctx, of.name, command)
	fmt.Fprintf(w, "%s%s: %s\n", output, of, verdict(p))
	if p.End != gpuservice.Passed {
		return fmt.Errorf("cannot rely on %s: %s", of, verdict(p))
	}
	return nil
}
