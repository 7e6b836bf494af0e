package charm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/charm/worker"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/gpu/nvidia"
)

// ready is the status text of a unit that works.
func (c *Charm) ready(want Desired) string {
	text := "Worker ready"
	if want.Web.URL != "" {
		text = "Web server ready"
	}
	if version, _, ok := release.Installed(c.Host.Root); ok {
		text += " (v" + version + ")"
	}
	if want.Web.URL != "" {
		text += " " + want.Web.URL
	}
	return text + want.Worker.Suffix
}

// Check looks at what runs, after applying: active is what answers, not what
// was started (D4).
func (c *Charm) Check(ctx context.Context, want Desired, changed bool) []status.Cause {
	var causes []status.Cause
	if want.Worker.Up {
		if cause := c.SettledWorker(ctx, want.Worker, changed); cause != nil {
			causes = append(causes, *cause)
		}
	}
	if want.Web.Up {
		if cause := c.CheckWeb(ctx, want.Web, changed); cause != nil {
			causes = append(causes, *cause)
		}
	}
	if want.Web.Jobs {
		if why := c.CheckPebble(ctx, role.JobsService, role.JobsURL); why != "" {
			causes = append(causes, status.Cause{Kind: status.Active, Text: "no metrics of jobs: " + why})
		}
	}
	if want.Worker.Kubernetes {
		if why := c.CheckKubernetes(ctx); why != "" {
			causes = append(causes, status.Cause{Kind: status.Active, Text: "no GPUs for Kubernetes: " + why})
		}
	}
	if want.Worker.Exporter {
		if why := c.CheckPebble(ctx, role.ExporterService, role.ExporterURL); why != "" {
			causes = append(causes, status.Cause{Kind: status.Active, Text: "no GPU metrics: " + why})
		} else {
			causes = append(causes, gpuhealth.CriticalCauses(ctx, c.Host, c.ExporterURL)...)
		}
	}
	return causes
}

// SettledWorker is what checkWorker says in the end.
func (c *Charm) SettledWorker(ctx context.Context, want worker.Worker, changed bool) *status.Cause {
	cause, connects := c.checkWorker(ctx, want, changed)
	for waited := time.Duration(0); cause != nil && (changed || connects) && waited < role.SettleTime; waited += role.SettlePoll {
		c.Host.Sleep(role.SettlePoll)
		cause, connects = c.checkWorker(ctx, want, true)
	}
	return cause
}

// checkWorker asks the worker and its journal. In a run that changed something
// the process may be another than the one observed. connects says that nothing
// but the registration lacks, for which the worker tries again by itself.
func (c *Charm) checkWorker(ctx context.Context, want worker.Worker, changed bool) (cause *status.Cause, connects bool) {
	health := make(chan concourse.Health, 1)
	go func() { health <- concourse.CheckHealth(ctx, c.healthURL()) }()
	reg, err := c.registration(ctx, want, changed)
	if h := <-health; h.State != concourse.Healthy {
		return &status.Cause{Kind: status.Waiting, Text: fmt.Sprintf("Worker not ready: %s; see journalctl --unit concourse-worker", h.Why)}, false
	}
	switch {
	case err != nil:
		return &status.Cause{Kind: status.Waiting, Text: err.Error()}, false
	case reg.State == concourse.Lost:
		return &status.Cause{Kind: status.Waiting, Text: "Worker not registered at the web: " + reg.Why}, true
	case reg.State == concourse.Unknown && (want.LogLevel == "info" || want.LogLevel == "debug"):
		// It says that it registered at these levels only.
		return &status.Cause{Kind: status.Waiting, Text: "Worker not registered at the web yet; see journalctl --unit concourse-worker"}, true
	}
	return nil, false
}

func (c *Charm) registration(ctx context.Context, want worker.Worker, changed bool) (concourse.Registration, error) {
	invocation := want.Invocation
	if changed {
		units, err := resource.ShowUnits(ctx, c.Host, concourse.Unit)
		if err != nil {
			return concourse.Registration{}, err
		}
		invocation = units[concourse.Unit].Invocation
	}
	return concourse.CheckRegistration(ctx, c.Host, invocation)
}

// healthURL honours an operator's own port.
func (c *Charm) healthURL() string {
	data, err := c.Host.ReadFile(concourse.OperatorEnvFile)
	if err != nil {
		return concourse.HealthURL
	}
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		if port, ok := strings.CutPrefix(strings.TrimSpace(sc.Text()), "CONCOURSE_HEALTHCHECK_BIND_PORT="); ok {
			return "http://127.0.0.1:" + strings.Trim(port, `"'`) + "/"
		}
	}
	return concourse.HealthURL
}

// noteCauses are remarks on steps that failed and were tolerated. The toolkits
// keep records of their own, which say more than the step does.
func (c *Charm) noteCauses(want worker.Worker, notes []plan.Note) []status.Cause {
	var causes []status.Cause
	if want.AMDToolkit {
		if text := amd.ToolkitNote(amd.ReadAttempt(c.Host.Root)); text != "" {
			causes = append(causes, status.Cause{Kind: status.Active, Text: text})
		}
	}
	if want.NVIDIAToolkit {
		if a := nvidia.ReadAttempt(c.Host.Root); a != nil {
			causes = append(causes, status.Cause{Kind: status.Active, Text: a.Text()})
		}
	}
	if len(notes) > 0 && want.AMDToolkit {
		if a := amd.ObserveInstall(c.Host.Root).Attempt; a != nil {
			causes = append(causes, status.Cause{Kind: status.Active, Text: a.Text()})
		}
	}
	for _, n := range notes {
		var kept *resource.KeptError
		if len(causes) == 0 && !errors.Is(n.Err, resource.ErrSkipped) && !errors.As(n.Err, &kept) {
			causes = append(causes, status.Cause{Kind: status.Active, Text: fmt.Sprintf("could not %s: %s", n.Step.Op, lastLine(n.Err))})
		}
	}
	return causes
}
