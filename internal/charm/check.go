package charm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/charm/worker"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/postgres"
	"concourse-ci-machine/internal/concourse/release"
)

// ready returns the status text of a working unit.
func (c *Charm) ready(want Desired) string {
	text := "Worker ready"
	switch {
	case want.Web.URL != "" && want.HasWorker:
		text = "Web server and worker ready"
	case want.Web.URL != "":
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

// Services describes the services that a check examines.
type Services string

// Values of Services. A check waits until restarted services answer.
const (
	Unchanged Services = "unchanged"
	Restarted Services = "restarted"
)

// Status returns the status of the unit as it is now. It changes nothing.
func (c *Charm) Status(ctx context.Context, want Desired) status.Status {
	return status.Of(c.ready(want), slices.Concat(want.Causes, c.Check(ctx, want, Unchanged)))
}

// Check examines the running services after applying. A unit is active if its services
// answer, not if they were started (D4).
func (c *Charm) Check(ctx context.Context, want Desired, services Services) []status.Cause {
	var causes []status.Cause
	if want.Worker.Up {
		if cause := c.SettledWorker(ctx, want.Worker, services); cause != nil {
			causes = append(causes, *cause)
		}
	}
	if want.Web.Up {
		if cause := c.CheckWeb(ctx, want.Web, services); cause != nil {
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

// SettledWorker repeats checkWorker until the worker is ready or role.SettleTime is over.
func (c *Charm) SettledWorker(ctx context.Context, want worker.Worker, services Services) *status.Cause {
	which := observedProcess
	if services == Restarted {
		which = currentProcess
	}
	cause, connects := c.checkWorker(ctx, want, which)
	for waited := time.Duration(0); cause != nil && (services == Restarted || connects) &&
		waited < role.SettleTime; waited += role.SettlePoll {
		c.Host.Sleep(role.SettlePoll)
		cause, connects = c.checkWorker(ctx, want, currentProcess)
	}
	return cause
}

// process selects the process of the worker's unit.
type process string

const (
	observedProcess process = "observed" // before the plan was applied
	currentProcess  process = "current"  // the plan or systemd may have restarted it
)

// checkWorker examines the worker and its journal. connects reports that only the
// registration is missing, which the worker retries.
func (c *Charm) checkWorker(ctx context.Context, want worker.Worker, which process) (cause *status.Cause,
	connects bool) {
	health := make(chan concourse.Health, 1)
	go func() { health <- concourse.CheckHealth(ctx, c.healthURL()) }()
	reg, err := c.registration(ctx, want, which)
	if h := <-health; h.State != concourse.Healthy {
		return &status.Cause{Kind: status.Waiting,
			Text: fmt.Sprintf("Worker not ready: %s; see journalctl --unit concourse-worker", h.Why)}, false
	}
	switch {
	case err != nil:
		return &status.Cause{Kind: status.Waiting, Text: err.Error()}, false
	case reg.State == concourse.Lost:
		return &status.Cause{Kind: status.Waiting, Text: "Worker not registered at the web: " + reg.Why}, true
	case reg.State == concourse.Unknown && (want.LogLevel == "info" || want.LogLevel == "debug"):
		// Only these levels log the registration.
		return &status.Cause{Kind: status.Waiting,
			Text: "Worker not registered at the web yet; see journalctl --unit concourse-worker"}, true
	}
	return nil, false
}

func (c *Charm) registration(ctx context.Context, want worker.Worker, which process) (concourse.Registration, error) {
	invocation := want.Invocation
	if which == currentProcess {
		units, err := resource.ShowUnits(ctx, c.Host, concourse.Unit)
		if err != nil {
			return concourse.Registration{}, err
		}
		invocation = units[concourse.Unit].Invocation
	}
	return concourse.CheckRegistration(ctx, c.Host, invocation)
}

// healthURL returns the URL of the worker's health, with the operator's port if it is set.
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

// noteCauses warns about tolerated failures. The records of the toolkits have more details
// than their steps.
func (c *Charm) noteCauses(want worker.Worker, notes []plan.Note) []status.Cause {
	var causes []status.Cause
	texts, _ := want.ToolkitNotes(c.Host.Root, len(notes) > 0)
	for _, text := range texts {
		causes = append(causes, status.Cause{Kind: status.Active, Text: text})
	}
	for _, n := range notes {
		var kept *resource.RecordedError
		if len(causes) == 0 && !errors.Is(n.Err, resource.ErrSkipped) && !errors.As(n.Err, &kept) {
			causes = append(causes, status.Cause{Kind: status.Active,
				Text: fmt.Sprintf("could not %s: %s", n.Step.Op, lastLine(n.Err))})
		}
	}
	return causes
}

// CheckKubernetes returns why pods cannot use the GPUs of this unit, or "". The plugin
// reports its state with the kubelet through systemd.
func (c *Charm) CheckKubernetes(ctx context.Context) string {
	out, err := c.Host.Run(ctx, host.Command{ReadOnly: true, Deadline: 30 * time.Second,
		Argv: []string{"systemctl", "show", "--property=ActiveState,StatusText,StatusErrno", worker.PluginUnit}})
	if err != nil {
		return err.Error()
	}
	properties := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		properties[key] = value
	}
	switch {
	case properties["ActiveState"] != "active":
		return fmt.Sprintf("%s is %s; see journalctl --unit concourse-gpu-device-plugin", worker.PluginUnit,
			properties["ActiveState"])
	case properties["StatusErrno"] != "0" && properties["StatusErrno"] != "":
		return properties["StatusText"] + "; without Kubernetes here set kubernetes=off"
	}
	return ""
}

// CheckWeb requests the web's health. systemd only reports that a process runs.
func (c *Charm) CheckWeb(ctx context.Context, want web.Web, services Services) *status.Cause {
	h := concourse.CheckWeb(ctx, want.LocalURL)
	for waited := time.Duration(0); h.State != concourse.Healthy && services == Restarted &&
		waited < role.WebSettleTime; waited += role.SettlePoll {
		c.Host.Sleep(role.SettlePoll)
		h = concourse.CheckWeb(ctx, want.LocalURL)
	}
	if h.State == concourse.Healthy {
		return nil
	}
	why := h.Why
	if err := DatabaseWorks(ctx, want); err != nil {
		why = lastLine(err) // without a database the web ends, and only the closed port is visible
	}
	return &status.Cause{Kind: status.Waiting,
		Text: fmt.Sprintf("Web not ready: %s; see journalctl --unit concourse-server", why)}
}

// DatabaseWorks logs in to the database as the web and checks its rights.
func DatabaseWorks(ctx context.Context, want web.Web) error {
	if err := postgres.Ping(ctx, want.Repair); err != nil {
		return err
	}
	return postgres.Rights(ctx, want.Repair)
}

// CheckPebble returns the problem of a service under Pebble, or "".
func (c *Charm) CheckPebble(ctx context.Context, service, url string) string {
	state, err := resource.PebbleServices(ctx, c.Host.Root, role.PebbleSocket)
	switch {
	case err != nil:
		return err.Error()
	case state.Services[service] != "active":
		return fmt.Sprintf("service %s is %s; see sudo PEBBLE=%s %s logs", service, state.Services[service],
			role.PebbleDir, role.PebbleBin)
	case state.Checks[service] == "down":
		return fmt.Sprintf("%s does not answer", url)
	}
	return ""
}
