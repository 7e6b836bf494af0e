package actions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/preflight"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// Checked holds one result of check-status.
type Checked struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Warning bool   `json:"warning,omitempty"` // it works, and needs attention
	Text    string `json:"text"`
	// Detail and Commands are those of a status.Cause.
	Detail   string   `json:"detail,omitempty"`
	Commands []string `json:"commands,omitempty"`
}

// report collects results.
type report struct{ checks []Checked }

func (r *report) add(name string, err error, text string) {
	if err != nil {
		text = err.Error()
	}
	r.checks = append(r.checks, Checked{Name: name, OK: err == nil, Text: text})
}

func (r *report) warn(name, text string) {
	r.checks = append(r.checks, Checked{Name: name, OK: true, Warning: true, Text: text})
}

// addCause adds a cause with its details.
func (r *report) addCause(name string, c status.Cause) {
	r.checks = append(r.checks, Checked{Name: name, OK: c.Kind == status.Active, Warning: c.Kind == status.Active,
		Text: c.Text, Detail: c.Detail, Commands: c.Commands})
}

// addService adds the failure of a service, or text if it works.
func (r *report) addService(name string, failure *status.Cause, text string) {
	if failure == nil {
		r.add(name, nil, text)
		return
	}
	r.addCause(name, failure.As(status.Blocked))
}

// failed returns the failures with their reasons.
func (r *report) failed() (bad []string) {
	for _, check := range r.checks {
		if !check.OK {
			bad = append(bad, check.Name+": "+
				status.Cause{Text: check.Text, Detail: check.Detail, Commands: check.Commands}.String())
		}
	}
	return bad
}

func (r *report) text() string {
	var b strings.Builder
	for _, check := range r.checks {
		mark := "ok"
		switch {
		case !check.OK:
			mark = "FAILED"
		case check.Warning:
			mark = "warn"
		}
		fmt.Fprintf(&b, "%-6s  %s: %s\n", mark, check.Name, check.Text)
		for _, line := range append([]string{check.Detail}, check.Commands...) {
			if line != "" {
				fmt.Fprintf(&b, "        %s\n", line)
			}
		}
	}
	return b.String()
}

// checkStatus checks everything that must work on this unit, and fails if a check fails
// (D25). With verbose it reports more details of what works.
func (c *Actions) checkStatus(ctx context.Context, u charm.Decision, params map[string]any) (map[string]any, error) {
	verbose, _ := params["verbose"].(bool)
	var r report
	for _, p := range u.Problems {
		r.addCause("options", status.Block("%s", p))
	}
	for _, cause := range status.Sorted(c.Causes(u.Want)) {
		if cause.Kind != status.Active {
			cause.Text = string(cause.Kind) + ": " + cause.Text
		}
		r.addCause("ready", cause)
	}
	for _, id := range u.Facts.Forced {
		r.addCause("relation "+id, forced(u.Facts.Unit))
	}
	if len(u.Problems) == 0 {
		c.checkServices(ctx, u, &r)
		if verbose {
			c.checkDetails(ctx, u, &r)
		}
	}
	status, bad := "ok", r.failed()
	if len(bad) > 0 {
		status = "failed"
	}
	var data strings.Builder
	if err := term.JSON(&data, r.checks); err != nil {
		return nil, err
	}
	version, _, _ := release.Installed(c.Host.Root)
	results := map[string]any{"status": status, "role": string(u.Facts.Role), "version": version,
		"checks": strings.TrimSpace(r.text()), "json": strings.TrimSpace(data.String())}
	if len(bad) > 0 {
		return results, fmt.Errorf("cannot report this unit as healthy: %s", strings.Join(bad, "; "))
	}
	return results, nil
}

// forced returns the warning about a relation that Juju lists although it was removed.
func forced(unit string) status.Cause {
	return status.Warn("removed with --force, and ignored; Juju lists it until the unit's agent restarts").
		Fix("to clear it: juju ssh " + unit + " sudo systemctl restart 'jujud-machine-*'")
}

func (c *Actions) checkServices(ctx context.Context, u charm.Decision, r *report) {
	if u.Want.Web.Up {
		r.addService("web", c.CheckWeb(ctx, u.Want.Web, charm.Unchanged), u.Want.Web.URL)
		db := u.Want.Web.Database
		r.add("database", charm.DatabaseWorks(ctx, u.Want.Web), fmt.Sprintf("%s at %s", db.Name, db.Host))
	}
	if u.Want.Worker.Up {
		if full := c.FullVolumes(u.Want.Worker.Volumes); full != nil {
			r.addCause("disk", *full)
		}
		r.addService("worker", c.SettledWorker(ctx, u.Want.Worker, charm.Unchanged),
			"healthy and registered at "+strings.Join(u.Want.Worker.TSA.Hosts, " or "))
	}
	if u.Want.Worker.Watches {
		r.addService(role.ExporterService, c.CheckExporter(ctx), "running and healthy")
	} else if u.Want.Worker.Exporter {
		if cause := c.CheckVerdicts(ctx); cause != nil {
			r.addCause(role.ExporterService, *cause)
		} else {
			r.add(role.ExporterService, nil, "running and healthy")
		}
	}
	if u.Want.Web.Jobs {
		r.addService(role.JobsService, c.CheckJobs(ctx), "running and healthy")
	}
	if unit := u.Want.Worker.Kubernetes; unit != "" {
		r.addService("kubernetes", c.CheckKubernetes(ctx, unit), "the kubelet has the GPUs")
	}
	if u.Want.Worker.Watches {
		c.checkGPUs(ctx, r)
	}
	_, details := u.Want.Worker.ToolkitNotes(c.Host.Root, false)
	for _, text := range details {
		r.add("toolkit", nil, text)
	}
	c.checkLeases(r)
	c.checkService(u.Facts.Unit, r)
}

func (c *Actions) checkGPUs(ctx context.Context, r *report) {
	all, unknown := c.ReadGPUs(ctx, charm.Unchanged)
	if unknown != nil {
		r.addCause("gpu health", unknown.As(status.Blocked))
	}
	for _, s := range all {
		name, h := fmt.Sprintf("gpu %d", s.Index), s.Health
		switch h.State {
		case health.Critical:
			r.add(name, fmt.Errorf("%s: %s", h.State, h.Reason), "")
		case health.Warning:
			r.warn(name, h.Reason)
		default:
			r.add(name, nil, strings.TrimSpace(fmt.Sprintf("%s %s", h.State, h.Reason)))
		}
	}
}

// checkDetails adds facts that help to find the cause of a failure.
func (c *Actions) checkDetails(ctx context.Context, u charm.Decision, r *report) {
	c.checkPreflight(ctx, r)
	if states, err := resource.ShowUnits(ctx, c.Host, concourse.WebUnit, concourse.Unit, role.PebbleUnit); err != nil {
		r.add("systemd", err, "")
	} else {
		for _, unit := range []string{concourse.WebUnit, concourse.Unit, role.PebbleUnit} {
			if s, ok := states[unit]; ok && s.Load != "not-found" {
				r.add(unit, nil, fmt.Sprintf("%s (%s), %s", s.Active, s.Sub, s.File))
			}
		}
	}
	for _, name := range []string{"runc", "containerd"} {
		if v := release.ToolVersion(ctx, c.Host, name); v != "" && u.Facts.Role.Worker() {
			r.add(name, nil, v)
		}
	}
	if u.Facts.Role.Web() && u.Want.Web.Up {
		workers, err := c.webAPI(u).Workers(ctx)
		r.add("workers", err, fmt.Sprintf("%d", len(workers)))
		for _, w := range workers {
			r.add("worker "+w.Name, nil, strings.TrimSpace(w.State+" "+strings.Join(w.Tags, ",")))
		}
	}
	if !u.Facts.Role.Worker() {
		return
	}
	if inv, err := gpu.Discover(c.Host.Root); err != nil {
		r.add("kfd", err, "")
	} else {
		r.add("kfd", nil, inv.KFD.Text())
	}
}

// checkPreflight adds the preflight checks.
func (c *Actions) checkPreflight(ctx context.Context, r *report) {
	checks, err := preflight.Run(ctx, c.Host, c.Program)
	if err != nil {
		r.add("preflight", err, "")
		return
	}
	for _, check := range checks {
		text := check.Text
		if check.Remedy != "" {
			text += " — " + check.Remedy
		}
		switch check.Level {
		case preflight.Failure:
			r.add("preflight "+check.Name, errors.New(text), "")
		case preflight.Warning:
			r.warn("preflight "+check.Name, text)
		default:
			r.add("preflight "+check.Name, nil, text)
		}
	}
}

// checkLeases adds the leases for check-status. A lease in doubt keeps its GPU from tasks.
// A unit with shared GPUs has no leases to check.
func (c *Actions) checkLeases(r *report) {
	leases, err := c.GPUs().Leases()
	if err == nil && !leases.Enabled {
		return
	}
	for _, d := range leases.Doubts {
		r.add("lease of "+d.GPU, fmt.Errorf("in doubt: %s", d.Text), "")
	}
	r.add("leases", err, fmt.Sprintf("%d of %d GPUs held", leases.Held, leases.GPUs))
}

// checkService adds the GPUs that no new task gets for check-status, each with the command
// that helps. Quarantined GPUs are only a warning, because the charm handles them. A
// failure is a unit without GPUs in service, or a GPU that requires a manual return. A unit
// without watched AMD GPUs has nothing to check.
func (c *Actions) checkService(unit string, r *report) {
	out, total, err := c.GPUs().NotInService(unit)
	if err == nil && total == 0 {
		return
	}
	for _, g := range out {
		if name := "service of " + g.GPU; g.Manual {
			r.add(name, errors.New(g.Text), "")
		} else {
			r.warn(name, g.Text)
		}
	}
	warnings, unread := c.GPUs().Warnings()
	for _, g := range warnings {
		r.warn("tasks of "+g.GPU, g.Text)
	}
	if err = errors.Join(err, unread); err == nil && len(out) == total {
		err = fmt.Errorf("0 of %d; tasks that request a GPU are refused", total)
	}
	r.add("gpus in service", err, fmt.Sprintf("%d of %d", total-len(out), total))
}
