package charm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

// Ready returns the status texts of a working unit, with and without the web's URL.
func (c *Charm) Ready(want Desired) []string {
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
	brief := text + want.Worker.Suffix
	if want.Web.URL != "" {
		text += " " + want.Web.URL
	}
	return []string{text + want.Worker.Suffix, brief}
}

// Services describes the services that a check examines.
type Services string

// Values of Services. A check waits until restarted services answer.
const (
	Unchanged Services = "unchanged"
	Restarted Services = "restarted"
)

// Check examines the running services after applying. A unit is active if its services
// answer, not if they were started (D4).
func (c *Charm) Check(ctx context.Context, want Desired, services Services) []status.Cause {
	var causes []status.Cause
	add := func(cause *status.Cause) {
		if cause != nil {
			causes = append(causes, *cause)
		}
	}
	if want.Worker.Up {
		add(c.FullVolumes(want.Worker.Volumes))
		add(c.SettledWorker(ctx, want.Worker, services))
	}
	if want.Web.Up {
		add(c.CheckWeb(ctx, want.Web, services))
	}
	if want.Web.Jobs {
		add(c.CheckJobs(ctx))
	}
	if unit := want.Worker.Kubernetes; unit != "" {
		add(c.CheckKubernetes(ctx, unit))
	}
	if want.Worker.Watches {
		all, unknown := c.ReadGPUs(ctx, services)
		add(unknown)
		causes = append(causes, gpuhealth.CriticalCauses(all, c.Commands())...)
		if unknown == nil { // otherwise Pebble may be the cause of both
			add(c.CheckExporter(ctx))
		}
	}
	return causes
}

// SettledWorker repeats checkWorker until the worker is ready or role.SettleTime is over. A log
// with failures alone shows a registration by its silence, which takes longer.
func (c *Charm) SettledWorker(ctx context.Context, want worker.Worker, services Services) *status.Cause {
	which := observedProcess
	if services == Restarted {
		which = currentProcess
	}
	limit := role.SettleTime
	if logged(want) == concourse.LogsFailures {
		limit += concourse.AttemptTime
	}
	cause, connects := c.checkWorker(ctx, want, which)
	for waited := time.Duration(0); cause != nil && (services == Restarted || connects) &&
		waited < limit; waited += role.SettlePoll {
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
		return c.withJournal(concourse.Unit, status.Wait("Worker not ready: %s", h.Why)), false
	}
	switch {
	case err != nil:
		return c.withJournal(concourse.Unit, status.Wait("%v", err)), false
	case reg.State == concourse.Lost:
		return c.withJournal(concourse.Unit, status.Wait("Worker not registered at the web: %s", reg.Why)), true
	case reg.State == concourse.Unknown && logged(want) == concourse.LogsRegistrations:
		return c.withJournal(concourse.Unit, status.Wait("Worker not registered at the web yet")), true
	}
	return nil, false
}

// withJournal returns the cause with the command that shows the log of a systemd unit.
func (c *Charm) withJournal(unit string, cause status.Cause) *status.Cause {
	cause = cause.Run(c.Commands().OnUnit("journalctl --unit " + strings.TrimSuffix(unit, ".service")))
	return &cause
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
	return concourse.CheckRegistration(ctx, c.Host, invocation, logged(want))
}

// logged returns what the worker's log has of its registration.
func logged(want worker.Worker) string {
	if want.LogLevel == "info" || want.LogLevel == "debug" {
		return concourse.LogsRegistrations
	}
	return concourse.LogsFailures
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
	texts, _ := want.ToolkitNotes(c.Host.Root, len(notes) > 0)
	causes := status.Warnings(texts)
	for _, n := range notes {
		var kept *resource.RecordedError
		if len(causes) == 0 && !errors.Is(n.Err, resource.ErrSkipped) && !errors.As(n.Err, &kept) {
			causes = append(causes, status.Warn("could not %s: %s", n.Step.Op, lastLine(n.Err)))
		}
	}
	return causes
}

// CheckKubernetes returns why pods cannot use the GPUs of this unit, or nil. The service reports
// its state with the kubelet through systemd.
func (c *Charm) CheckKubernetes(ctx context.Context, unit string) *status.Cause {
	const no = "no GPUs for Kubernetes: "
	out, err := c.Host.Run(ctx, host.Command{ReadOnly: true, Deadline: 30 * time.Second,
		Argv: []string{"systemctl", "show", "--property=ActiveState,StatusText,StatusErrno", unit}})
	if err != nil {
		return c.withJournal(unit, status.Warn(no+"%v", err))
	}
	properties := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		properties[key] = value
	}
	switch {
	case properties["ActiveState"] != "active":
		return c.withJournal(unit, status.Warn(no+"%s is %s", unit,
			properties["ActiveState"]))
	case properties["StatusErrno"] != "0" && properties["StatusErrno"] != "":
		return c.withJournal(unit, status.Warn(no+"%s", properties["StatusText"]).
			Explain("without Kubernetes here set kubernetes=off"))
	}
	return nil
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
	} else if line := concourse.StartError(ctx, c.Host); line != "" {
		why = line
	}
	return c.withJournal(concourse.WebUnit, status.Wait("Web not ready: %s", why))
}

// DatabaseWorks logs in to the database as the web and checks its rights.
func DatabaseWorks(ctx context.Context, want web.Web) error {
	if err := postgres.Ping(ctx, want.Repair); err != nil {
		return err
	}
	return postgres.Rights(ctx, want.Repair)
}

// CheckJobs returns why the metrics of jobs are missing, or nil.
func (c *Charm) CheckJobs(ctx context.Context) *status.Cause {
	return c.checkPebble(ctx, "no metrics of jobs: ", role.JobsService, role.JobsURL)
}

// ReadGPUs returns the state of the GPUs as their owner recorded it, or why it is not known.
// Then no faulty GPU is quarantined. An owner that has just started may not have read them yet.
func (c *Charm) ReadGPUs(ctx context.Context, services Services) (all []api.Status, unknown *status.Cause) {
	report, err := gpuhealth.Current(c.Host.Root, role.GPUReport, c.Host.Now())
	if err == nil {
		return report.GPUs, nil
	}
	const lack = "GPUs not watched: "
	unknown = c.checkPebble(ctx, lack, role.GPUService, "")
	if unknown == nil && services == Unchanged {
		unknown = new(status.Warn(lack+"%v", err).Run(c.logsOf(role.GPUService)))
	}
	return nil, unknown
}

// CheckExporter returns why the metrics of GPUs are missing, or nil.
func (c *Charm) CheckExporter(ctx context.Context) *status.Cause {
	return c.checkPebble(ctx, "no GPU metrics: ", role.ExporterService, role.ExporterURL)
}

// CheckVerdicts returns the problem of the exporter of a worker without GPUs, or nil. The
// worker's tasks do not depend on it.
func (c *Charm) CheckVerdicts(ctx context.Context) *status.Cause {
	return c.checkPebble(ctx, "no verdicts on tasks: ", role.ExporterService, role.ExporterURL)
}

// checkPebble returns the problem of a service under Pebble, or nil. Its text begins with
// lack.
func (c *Charm) checkPebble(ctx context.Context, lack, service, url string) *status.Cause {
	var cause status.Cause
	state, err := resource.PebbleServices(ctx, c.Host.Root, role.PebbleSocket)
	switch {
	case err != nil:
		cause = status.Warn(lack+"%v", err)
	case state.Services[service] != "active":
		cause = status.Warn(lack+"service %s is %s", service, state.Services[service])
	case state.Checks[service] == "down":
		cause = status.Warn(lack+"%s does not answer", url)
	default:
		return nil
	}
	return new(cause.Run(c.logsOf(service)))
}

// logsOf returns the command that shows the log of a service under Pebble.
func (c *Charm) logsOf(service string) string {
	return c.Commands().OnUnit("sudo PEBBLE=" + role.PebbleDir + " " + role.PebbleBin + " logs " + service)
}
