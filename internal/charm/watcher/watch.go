package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/pool/quarantine"
)

// Look is what Pebble runs every resource.JobPeriod, as root and without Juju: it
// decides which GPUs are withheld, from what the exporter tells, and writes that down for
// the wrapper; then who leases the GPUs, for the exporter; last it tells tasks whose GPU
// fell sick. None keeps the others from being done. GPUs with clocks that are fixed are
// seen to first, by others: nothing that takes long may keep a task's setting.
func (u *Unit) Look(ctx context.Context, w io.Writer) error {
	began := u.beginBench()
	seen, err := u.decideService(ctx, w)
	err = errors.Join(began, err, u.reportWatched(ctx, w))
	if failed := u.tellTasks(w, seen); failed != nil {
		fmt.Fprintln(w, failed)
	}
	return err
}

// reportWatched leaves out the remark on shared GPUs, which is for people.
func (u *Unit) reportWatched(ctx context.Context, w io.Writer) error {
	_, _, on, err := u.leased()
	if err != nil || !on {
		return err
	}
	return u.ReportLeases(ctx, w)
}

// decideService returns what it saw, too.
func (u *Unit) decideService(ctx context.Context, w io.Writer) ([]quarantine.Reading, error) {
	// The exporter can take seconds, so a person need not wait for it: it is asked first.
	l := quarantine.Look{}
	l.Boot, l.Driver = quarantine.CurrentLoad(u.Host.Root)
	worker, cancel := context.WithTimeout(ctx, containersTime)
	defer cancel()
	seen, err := gpuhealth.Look(ctx, u.Host, u.ExporterURL)
	if l.GPUs = seen; err != nil {
		l.Unknown = err.Error()
	}
	u.addTasks(&l)
	if known, err := quarantine.Read(u.Host.Root); err == nil {
		l.Exits = u.exits(worker, known, l)
	}
	var unread error
	var due []string
	open := ""
	err = u.changeService(func(r quarantine.Record) (quarantine.Record, error) {
		l.At, l.Policy = u.Host.Now().UTC(), u.quarantine(r)
		unread = u.seeProofs(&l, r)
		open = u.seeNodes(&l, r)
		now := quarantine.Decide(r, l)
		due = now.DueProofs()
		if err := u.keepEvidence(w, r, now); err != nil {
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
		err = errors.Join(err, u.beginProbe(open))
	}
	for _, name := range due {
		err = errors.Join(err, u.beginProof(ctx, w, name, l.Proof))
	}
	return seen, err
}

// quarantine is the option as the last hook knew it; while it is wrong, what held before.
func (u *Unit) quarantine(r quarantine.Record) quarantine.Policy {
	before := r.Policy
	if before == "" {
		before = quarantine.Auto
	}
	cfg, ok := u.option("gpu-quarantine")
	if !ok {
		return before
	}
	return quarantine.Policy(cfg.GPUQuarantine)
}

// option is the configuration of the last hook; false where it was wrong about this option,
// or is not known.
func (u *Unit) option(name string) (cfg config.Config, known bool) {
	facts, err := model.Load(u.Host.Root)
	if err != nil {
		return cfg, false
	}
	cfg, problems := config.Parse(facts.Config, facts.Secrets)
	return cfg, !slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Option == name })
}
