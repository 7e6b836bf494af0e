package actions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm"
	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/preflight"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/gpu/health"
)

// Checked is one thing that check-status looked at.
type Checked struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Warning bool   `json:"warning,omitempty"` // it works, and somebody should look at it
	Text    string `json:"text"`
}

// report collects them.
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

func (r *report) cause(name string, cause *status.Cause, text string) {
	if cause == nil {
		r.add(name, nil, text)
		return
	}
	r.add(name, fmt.Errorf("%s", cause.Text), "")
}

// failed are those that do not work, with the reason.
func (r *report) failed() (bad []string) {
	for _, check := range r.checks {
		if !check.OK {
			bad = append(bad, check.Name+": "+check.Text)
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
	}
	return b.String()
}

// checkStatus looks at everything that has to work on this unit, and fails when
// something does not (D25). With verbose it says more of what works.
func (c *Actions) checkStatus(ctx context.Context, u unitNow, params map[string]any) (map[string]any, error) {
	verbose, _ := params["verbose"].(bool)
	var r report
	for _, p := range u.Problems {
		r.add("options", fmt.Errorf("%s", p), "")
	}
	for _, cause := range u.Want.Causes {
		if cause.Kind != status.Active {
			r.add("ready", fmt.Errorf("%s: %s", cause.Kind, cause.Text), "")
		}
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

func (c *Actions) checkServices(ctx context.Context, u unitNow, r *report) {
	if u.Want.Web.Up {
		r.cause("web", c.CheckWeb(ctx, u.Want.Web, false), u.Want.Web.URL)
		db := u.Want.Web.Database
		r.add("database", charm.DatabaseWorks(ctx, u.Want.Web), fmt.Sprintf("%s at %s", db.Name, db.Host))
	}
	if u.Want.Worker.Up {
		r.cause("worker", c.SettledWorker(ctx, u.Want.Worker, false), "healthy and registered at "+u.Want.Worker.TSA.Host)
	}
	for _, p := range []struct {
		on           bool
		service, url string
	}{{u.Want.Worker.Exporter, role.ExporterService, role.ExporterURL}, {u.Want.Web.Jobs, role.JobsService, role.JobsURL}} {
		if !p.on {
			continue
		}
		var err error
		if why := c.CheckPebble(ctx, p.service, p.url); why != "" {
			err = fmt.Errorf("%s", why)
		}
		r.add(p.service, err, "running and healthy")
	}
	if u.Want.Worker.Kubernetes {
		var err error
		if why := c.CheckKubernetes(ctx); why != "" {
			err = errors.New(why)
		}
		r.add("kubernetes", err, "the kubelet knows the GPUs")
	}
	if u.Want.Worker.Exporter {
		c.checkGPUs(ctx, r)
	}
	// The status shows neither; see amd.ToolkitNote and amd.MissingToolkit.
	if last := amd.ReadAttempt(c.Host.Root); u.Want.Worker.Toolkit && last != nil && last.Unreachable {
		r.add("toolkit", nil, last.Text()+"; tasks get their GPUs without it")
	}
	if why := u.Want.Worker.NoToolkit; why != "" {
		r.add("toolkit", nil, why)
	}
	c.checkLeases(r)
	c.checkInService(u.Facts.Unit, r)
}

func (c *Actions) checkGPUs(ctx context.Context, r *report) {
	states, err := gpuhealth.FromExporter(ctx, c.Host, c.ExporterURL)
	if err != nil {
		r.add("gpu health", err, "")
		return
	}
	for _, s := range states {
		name := fmt.Sprintf("gpu %d", s.Index)
		switch s.State {
		case health.Critical:
			r.add(name, fmt.Errorf("%s: %s", s.State, s.Reason), "")
		case health.Warning:
			r.warn(name, s.Reason)
		default:
			r.add(name, nil, strings.TrimSpace(fmt.Sprintf("%s %s", s.State, s.Reason)))
		}
	}
}

// checkDetails are facts that people ask for when something is wrong.
func (c *Actions) checkDetails(ctx context.Context, u unitNow, r *report) {
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
		if v := release.ToolVersion(ctx, c.Host, name); v != "" && u.Facts.Role == model.WorkerRole {
			r.add(name, nil, v)
		}
	}
	if u.Facts.Role == model.WebRole && u.Want.Web.Up {
		workers, err := c.api(u).Workers(ctx)
		r.add("workers", err, fmt.Sprintf("%d", len(workers)))
		for _, w := range workers {
			r.add("worker "+w.Name, nil, strings.TrimSpace(w.State+" "+strings.Join(w.Tags, ",")))
		}
		return
	}
	if inv, err := gpu.Discover(c.Host.Root); err != nil {
		r.add("kfd", err, "")
	} else {
		r.add("kfd", nil, inv.KFD.Text())
	}
}

// checkPreflight adds the checks to those of check-status.
func (c *Actions) checkPreflight(ctx context.Context, r *report) {
	checks, err := preflight.Run(ctx, c.Host)
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
