package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/exporter/health"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpuservice"
	"concourse-ci-machine/internal/gpustate"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/oci"
)

// WatchGPUs is what Pebble runs every resource.JobPeriod, as root and without Juju: it
// decides which GPUs are withheld, from what the exporter tells, and writes that down for
// the wrapper; then who leases the GPUs, for the exporter; last it tells tasks whose GPU
// fell sick. None keeps the others from being done.
func (c *Actions) WatchGPUs(ctx context.Context, w io.Writer) error {
	seen, err := c.decideService(ctx, w)
	err = errors.Join(err, c.reportWatched(ctx, w))
	if failed := c.tellTasks(w, seen); failed != nil {
		fmt.Fprintln(w, failed)
	}
	return err
}

// reportWatched leaves out the remark on shared GPUs, which is for people.
func (c *Actions) reportWatched(ctx context.Context, w io.Writer) error {
	_, _, on, err := c.leased()
	if err != nil || !on {
		return err
	}
	return c.ReportLeases(ctx, w)
}

// decideService returns what it saw, too.
func (c *Actions) decideService(ctx context.Context, w io.Writer) ([]gpuservice.Seen, error) {
	// The exporter can take seconds, so a person need not wait for it: it is asked first.
	l := gpuservice.Look{}
	l.Boot, l.Driver = gpuservice.Loads(c.Host.Root)
	worker, cancel := context.WithTimeout(ctx, containersTime)
	defer cancel()
	seen, err := gpustate.Look(ctx, c.Host, c.ExporterURL)
	if l.GPUs = seen; err != nil {
		l.Unknown = err.Error()
	}
	c.addTasks(&l)
	if known, err := gpuservice.Read(c.Host.Root); err == nil {
		l.Exits = c.exits(worker, known, l)
	}
	var unread error
	var due []string
	open := ""
	err = c.changeService(func(r gpuservice.Record) (gpuservice.Record, error) {
		l.At, l.Policy = c.Host.Now().UTC(), c.quarantine(r)
		unread = c.seeProofs(&l, r)
		open = c.seeNodes(&l, r)
		now := gpuservice.Decide(r, l)
		due = now.Due()
		if err := c.keepEvidence(w, r, now); err != nil {
			return r, err
		}
		for _, g := range now.GPUs {
			if was := r.Find(g.Name); was == nil || was.State != g.State {
				fmt.Fprintf(w, "GPU %d (%s): %s: %s\n", g.Index, g.Name, g.State, g.Why)
			}
		}
		return now, nil
	})
	err = errors.Join(err, unread)
	if open != "" {
		err = errors.Join(err, c.beginProbe(open))
	}
	for _, name := range due {
		err = errors.Join(err, c.beginProof(ctx, w, name, l.Proof))
	}
	return seen, err
}

// quarantine is the option as the last hook knew it; while it is wrong, what held before.
func (c *Actions) quarantine(r gpuservice.Record) gpuservice.Policy {
	before := r.Policy
	if before == "" {
		before = gpuservice.Auto
	}
	cfg, ok := c.option("gpu-quarantine")
	if !ok {
		return before
	}
	return gpuservice.Policy(cfg.Quarantine)
}

// option is the configuration of the last hook; false where it was wrong about this option,
// or is not known.
func (c *Actions) option(name string) (cfg config.Config, known bool) {
	facts, err := model.Load(c.Host.Root)
	if err != nil {
		return cfg, false
	}
	cfg, problems := config.Parse(facts.Config, facts.Secrets)
	return cfg, !slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Option == name })
}

// changeService changes the record, and what the wrapper reads of it.
func (c *Actions) changeService(change func(gpuservice.Record) (gpuservice.Record, error)) error {
	unlock, err := c.Host.Lock(gpuservice.LockFile)
	if err != nil {
		return fmt.Errorf("cannot lock %s: %w; run it with sudo", gpuservice.LockFile, err)
	}
	defer unlock()
	r, err := gpuservice.Read(c.Host.Root)
	if err != nil && !errors.Is(err, gpuservice.ErrDamaged) {
		return err
	}
	// A damaged record is made anew by the next look: what is sick is withheld again at
	// once. What a person withheld is lost; files are replaced in one step, so somebody
	// has to have written there.
	if r, err = change(r); err != nil {
		return err
	}
	// The wrapper's file first: a kill in between withholds a GPU too soon, never too late.
	if err := c.writeWithheld(r); err != nil {
		return err
	}
	return gpuservice.Write(c.Host.Root, r)
}

// writeWithheld writes what the wrapper reads for each container, where it differs:
// no file where there is nothing to say.
func (c *Actions) writeWithheld(r gpuservice.Record) error {
	var f oci.WithheldFile
	for _, g := range r.OutOfService() {
		f.GPUs = append(f.GPUs, oci.WithheldGPU{Name: g.Name, Why: g.Text()})
	}
	for _, a := range r.Avoid() {
		f.Avoid = append(f.Avoid, oci.AvoidedGPU{Name: a.GPU, Like: a.Like})
	}
	if _, _, on, err := c.leased(); err == nil && on {
		for _, g := range r.GPUs {
			if most, ok := g.Most(); ok && g.State == gpuservice.InService {
				f.Memory = append(f.Memory, oci.IdleMemory{Name: g.Name, File: "/sys/bus/pci/devices/" + g.Name + "/mem_info_vram_used", Most: most})
			}
		}
	}
	if len(f.GPUs)+len(f.Avoid)+len(f.Memory) == 0 {
		return c.Host.Remove(gpuservice.WithheldFile)
	}
	want := oci.EncodeWithheld(f)
	if have, err := c.Host.ReadFile(gpuservice.WithheldFile); err == nil && string(have) == string(want) {
		if st, err := c.Host.Lstat(gpuservice.WithheldFile); err == nil && st.Mode() == 0o644 {
			return nil
		}
	}
	return c.Host.WriteFile(gpuservice.WithheldFile, want, 0o644)
}

// GPUWithhold keeps a GPU from new containers until a person returns it.
func (c *Actions) GPUWithhold(w io.Writer, which, reason string) error {
	return c.byHand(w, "withhold", which, func(r gpuservice.Record, of servedGPU) (gpuservice.Record, string, error) {
		now, err := r.Withhold(of.name, reason, c.Host.Now().UTC())
		return now, fmt.Sprintf("%s is withheld: no new container gets it; one that has it keeps it. gpu-return gives it back. Tags and status follow by the next hooks, within minutes", of), err
	})
}

// GPUReturn gives a GPU back to tasks, whoever withheld it.
func (c *Actions) GPUReturn(w io.Writer, which string) error {
	return c.byHand(w, "return", which, func(r gpuservice.Record, of servedGPU) (gpuservice.Record, string, error) {
		now, standing, err := r.Return(of.name, c.Host.Now().UTC())
		text := of.String() + " is in service again"
		switch {
		case now.Find(of.name) == nil:
			text = of.String() + " is gone, and forgotten: it counts anew when it is back"
		case len(standing) > 0:
			text += ", though this stands: " + gpuservice.Texts(standing) + ". It is not withheld for that any more; for anything new it is"
		}
		return now, text + ". Tags and status follow by the next hooks, within minutes", err
	})
}

func (c *Actions) byHand(w io.Writer, verb, which string, change func(gpuservice.Record, servedGPU) (gpuservice.Record, string, error)) error {
	text := ""
	if err := c.changeService(func(r gpuservice.Record) (gpuservice.Record, error) {
		of, err := c.findServed(r, verb, which)
		if err != nil {
			return r, err
		}
		r.Policy = c.quarantine(r)
		r, text, err = change(r, of)
		return r, err
	}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// servedGPU is one of the GPUs that the record has.
type servedGPU struct {
	leasedGPU
	gpuservice.GPU
}

// String is the GPU as texts for people name it.
func (s servedGPU) String() string { return s.leasedGPU.String() }

// served are the GPUs of the record, with all their names.
func (c *Actions) served(r gpuservice.Record) (all []servedGPU, err error) {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return nil, err
	}
	for _, g := range r.GPUs {
		all = append(all, servedGPU{leasedOf(inv, g.Name), g})
	}
	return all, nil
}

func (c *Actions) findServed(r gpuservice.Record, verb, which string) (of servedGPU, err error) {
	all, err := c.served(r)
	if err != nil {
		return of, err
	}
	if len(all) == 0 {
		return of, fmt.Errorf("cannot %s GPU %q: no AMD GPU of this unit is watched yet; see juju status", verb, which)
	}
	var gpus []leasedGPU
	for _, s := range all {
		gpus = append(gpus, s.leasedGPU)
	}
	i, err := findGPU(gpus, verb, "has", which)
	if err != nil {
		return of, err
	}
	return all[i], nil
}

// servedNow are the GPUs of the record; none where nothing was decided yet.
func (c *Actions) servedNow() ([]servedGPU, error) {
	r, err := gpuservice.Read(c.Host.Root)
	if errors.Is(err, gpuservice.ErrDamaged) {
		return nil, nil // within seconds it is made anew
	}
	if err != nil || len(r.GPUs) == 0 {
		return nil, err
	}
	return c.served(r)
}

// serviceText tells of the GPUs that are not in service; "" where all are.
func serviceText(all []servedGPU) string {
	var b strings.Builder
	for _, s := range all {
		if s.State == gpuservice.InService {
			continue
		}
		fmt.Fprintf(&b, "%s: %s %s\n", s.State, s, s.Text())
		if now := gpuservice.Texts(s.Standing); s.State == gpuservice.Withheld && now != "" {
			fmt.Fprintf(&b, "      at the last look: %s\n", now)
		}
	}
	return b.String()
}

// Served is a GPU's service state in JSON.
type Served struct {
	Name     string           `json:"name"`
	Index    int              `json:"index"`
	State    gpuservice.State `json:"state"`
	Since    string           `json:"since"`
	Why      string           `json:"why"`
	By       gpuservice.By    `json:"by,omitempty"`
	Standing []health.Fault   `json:"standing,omitempty"` // at the last look
	Seconds  float64          `json:"withheld_seconds"`
	Times    uint64           `json:"withheld_times"` // because it was sick
}

func (c *Actions) servedJSON(all []servedGPU) (list []Served) {
	for _, s := range all {
		list = append(list, Served{s.name, s.Index, s.State, s.Since.UTC().Format("2006-01-02T15:04:05Z"), s.Why, s.By, s.Standing, s.OutFor(c.Host.Now()), s.Times})
	}
	return list
}
