// Package worker decides the desired state of a unit that is a worker. Observe reads the
// machine, Desire returns the resources and causes, and RemoveForWeb and RemoveAll return
// what to remove. It changes nothing itself. Each file has one subject: GPUs, the wrapper,
// leases, quarantine, AMD's driver, folders, the limit of tasks, the exporter, Kubernetes.
package worker

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/predecessor"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
)

// Desire decides the desired state of a worker and has no other effect: equal Observed give
// equal Desired, except for functions in resources, which cannot be compared. removal
// removes the other role from the unit.
func Desire(o Observed, removal []plan.Resource) Desired {
	d := desireWorkerUnit(o, removal)
	// A worker of the Python charm that has no relation at the takeover continues to run.
	// It ends if the relation ends in this hook.
	d.Refused = role.Refusals(o.Observed, d.Up || lostWeb(o.Observed), d.Causes)
	return d
}

// EndTasks ends the tasks of a worker with invalid options if its relation to the web
// ended. All other changes wait for valid options.
func EndTasks(h host.Host, o role.Observed) ([]plan.Resource, error) {
	if !role.EndsTasks(o.Event, o.Facts) {
		return nil, nil
	}
	env, err := role.ReadOptional(h.Root, concourse.EnvFile)
	if err != nil || predecessor.WroteWorker([]byte(env)) && !lostWeb(o) {
		return nil, err
	}
	return []plan.Resource{drain(o)}, nil
}

// lostWeb reports whether the worker's relation to the web ends in this hook.
func lostWeb(o role.Observed) bool {
	return strings.HasSuffix(o.Event, "-relation-broken") && role.EndsTasks(o.Event, o.Facts)
}

// drain ends a worker that has no web.
func drain(o role.Observed) plan.Resource {
	return concourse.Drain{
		State: o.Units[concourse.Unit], Limit: o.Config.DrainTimeout,
		Why: "it has no web to register at", Disrupts: role.RunningTasks,
	}
}

func desireWorkerUnit(o Observed, removal []plan.Resource) Desired {
	d := Desired{Desired: role.Desired{Release: o.Release}, Worker: Worker{
		LogLevel: o.Config.LogLevel, Drain: o.Config.DrainTimeout,
		Invocation: o.Units[concourse.Unit].Invocation,
	}}
	gpus := DecideGPUs(o.Config, o.GPUs, o.Known, o.Machine, o.NVIDIA)
	d.Known = gpus.reportMissing(o)
	gpus.applyQuarantine(&d, o)
	d.Causes = append(append(d.Causes, gpus.Causes...), gpus.Remarks...)
	d.Suffix = gpus.Suffix() + folderSuffix(o)
	d.GPUs = publishedGPUs(o, gpus)

	d.Resources = append(d.Resources, removal...)
	d.Resources = append(d.Resources, concourse.Folders(o.Shared())...)
	d.Resources = append(d.Resources, role.CharmFiles(o.Observed)...)
	d.TrustAuthorities(o.Observed)
	role.DesireRelease(&d.Desired, o.Observed, drainBeforeUpgrade(o))
	d.Resources = append(d.Resources, concourse.Key{Path: concourse.WorkerKey, Bits: concourse.WorkerKeyBits})
	desireDriver(&d, o, gpus)
	wrapped, err := desireGPUs(&d, o, gpus)
	if err == nil {
		err = desireWorker(&d, o, gpus, wrapped)
	}
	d.TakeOver(o.Observed)
	if err == nil {
		err = desireExporter(&d, o, gpus)
	}
	if err != nil {
		d.Resources = append(d.Resources, role.Impossible{Err: err})
	}
	return d
}

// The triggers, which are also the names of their stamps.
const (
	ReloadWorker  = "daemon-reload-worker"
	RestartWorker = "restart-worker"
)

// desireWorker adds the worker itself. It runs only with a web to register at. Without a
// web the unit waits, and is never active (D4).
func desireWorker(d *Desired, o Observed, gpus GPUs, wrapped bool) error {
	tasks := desireWorkerLimit(d, o, gpus)
	cfg := concourse.WorkerConfig{
		Name:    role.WorkerName(o.KeptName, o.Facts.Unit, o.WorkerID),
		WorkDir: concourse.WorkFolder(o.Shared()), LogLevel: o.Config.LogLevel, TSA: o.TSA,
		Tags:    concourse.Tags(unitTags(o.Config.Tags, o.Facts.Unit), gpuTags(gpus, gpus.Tagged)),
		Wrapped: wrapped, MaxTasks: tasks,
		DNSProxy: o.Config.DNSProxy, DNSServers: o.Config.DNSServers, Proxy: role.ProxyOf(o.Facts, o.Config),
	}
	var traced []status.Cause
	cfg.Tracing, traced = role.Tracing(o.Observed, o.WorkerEnv, nil, "concourse-worker")
	cfg.CertsDir = certsFolder(d.Trusted)
	certs, certsRemoval := desireCertsFolder(o, cfg.CertsDir)
	env, err := cfg.File(o.WorkerEnv)
	if err != nil {
		return err
	}
	unit, err := concourse.WorkerUnit()
	if err != nil {
		return err
	}
	state := o.Units[concourse.Unit]
	d.TSA = o.TSA
	registers := o.TSA.Complete() && (o.Facts.Mode() == "auto" || len(o.Facts.Flights) == 1)
	if o.KeptName != "" {
		d.Resources = append(d.Resources, predecessor.KeepName(concourse.WorkFolder(o.Shared()), o.KeptName))
	}
	d.Resources = append(d.Resources, certs...)
	d.Resources = append(
		d.Resources, concourse.OperatorEnv{},
		concourse.WorkerID(concourse.WorkFolder(o.Shared()), o.WorkerID), unit,
		resource.Trigger{
			Name: ReloadWorker, Inputs: [][]byte{unit.Data}, Files: []string{unit.Path},
			Op:   "reload systemd for " + concourse.Unit,
			Then: []host.Command{resource.Systemctl("daemon-reload")}})
	d.Causes = slices.Concat(d.Causes, webCauses(o), traced)
	if !registers {
		d.Resources = append(d.Resources, drain(o.Observed))
		if !state.Running() || role.EndsTasks(o.Event, o.Facts) {
			// A worker that runs without its web keeps its environment.
			d.Resources = append(d.Resources, env)
		}
		return nil
	}
	key := o.TSA.HostKeyFile()
	if o.Landed {
		d.Resources = append(d.Resources, env, key)
		d.Causes = append(d.Causes, status.Cause{
			Kind: status.Waiting,
			Text: "Worker landed by an action: run restart-services to make it take work again",
		})
		return nil
	}
	d.Up = true
	if gpus.Requested && len(gpus.Tagged) == 0 {
		d.Causes = append(d.Causes, status.Cause{
			Kind: status.Active,
			Text: "steps without tags go to other workers meanwhile: this one keeps the tag gpu-count=0",
		})
	}
	d.Resources = append(d.Resources, env, key,
		resource.Service{Unit: concourse.Unit, State: state, Up: true},
		// The new process adopts the running tasks, see concourse.Drain.
		resource.Trigger{
			Name:   RestartWorker,
			Inputs: append([][]byte{unit.Data, env.Data, key.Data, []byte(o.ReleaseID)}, d.TrustInputs()...),
			Files:  []string{unit.Path, env.Path, key.Path}, Unit: concourse.Unit, State: state,
			Op: "restart " + concourse.Unit, Adopt: role.Starts(state),
			Then: []host.Command{resource.Systemctl("restart", concourse.Unit)}})
	d.Resources = append(d.Resources, certsRemoval...)
	return nil
}

// webCauses returns what is missing to reach a web.
func webCauses(o Observed) []status.Cause {
	app, _, _ := strings.Cut(o.Facts.Unit, "/")
	var causes []status.Cause
	switch {
	case o.Facts.Mode() == "auto":
		if !o.TSA.Complete() {
			causes = append(causes, status.Cause{
				Kind: status.Waiting,
				Text: "Waiting for the leader's web: it says in juju status what it waits for",
			})
		}
	case len(o.Facts.Flights) == 0:
		causes = append(causes, status.Cause{Kind: status.Waiting, Text: fmt.Sprintf(
			"Waiting for a web: run juju integrate %s:flight <web application>:tsa", app,
		)})
	case len(o.Facts.Flights) > 1:
		causes = append(causes, status.Cause{Kind: status.Blocked, Text: fmt.Sprintf(
			"flight: related to %d webs and a worker serves one; remove one with juju remove-relation",
			len(o.Facts.Flights),
		)})
	case !o.TSA.Complete():
		causes = append(causes, status.Cause{Kind: status.Waiting, Text: "Waiting for TSA connection info..."})
	}
	if v := o.Config.Version; v != "" && !release.Fits(o.TSA.Version, v) {
		causes = append(causes, status.Cause{Kind: status.Blocked, Text: fmt.Sprintf(
			"a worker of Concourse %s gets no work from a web of %s: to follow the web, run juju config %s "+
				"--reset version", v, o.TSA.Version, app)})
	}
	for _, p := range o.TSAProblems {
		causes = append(causes, status.Cause{Kind: status.Waiting, Text: "flight: " + p})
	}
	return causes
}

// unitTags replaces {unit} in the operator's tags with the unit's name. An application has
// one option for all units, and a step for one unit requires the unit's tag.
func unitTags(tags []string, unit string) (replaced []string) {
	for _, t := range tags {
		replaced = append(replaced, strings.ReplaceAll(t, "{unit}", strings.ReplaceAll(unit, "/", "-")))
	}
	return replaced
}

// gpuTags returns the tags for these GPUs.
func gpuTags(g GPUs, gpus []gpu.GPU) concourse.GPUTags {
	t := concourse.GPUTags{Count: len(gpus)}
	if !g.Requested {
		return t
	}
	// The vendor may be undecided. gpu-count=0 is a tag in any case.
	t.Runtime = cmp.Or(g.Vendor, gpu.AMD).Traits().Runtime
	for _, one := range gpus {
		t.Archs = append(t.Archs, one.GFX)
	}
	return t
}

// Desired holds the desired state of a unit that is a worker.
type Desired struct {
	role.Desired
	Worker
}

// Worker holds the part of the desired state that only workers have.
type Worker struct {
	Up     bool   // it should be running after applying
	Suffix string // of the ready status: " (GPU: 1x AMD)"

	TSA        concourse.TSA // of the web to register at
	LogLevel   string
	Invocation string // systemd's id of the observed process

	Drain        time.Duration       // time for its tasks at removal; published to the web
	GPUs         relation.WorkerGPUs // published to the web
	Known        KnownGPUs           // to record
	LimitRelease string              // release in WorkerLimitFile

	Kubernetes    bool // the kubelet is offered the GPUs after applying
	Exporter      bool // rocm-exporter should be running after applying
	AMDToolkit    bool // required; the status shows a failed installation
	NVIDIAToolkit bool // required; the status shows a failed installation
	GeneratesSpec bool // applying can give additional NVIDIA GPUs to tasks
	Driver        *Driver
}

// Driver holds the decision on the driver of AMD GPUs, with its input.
type Driver struct {
	Decision amd.Decision
	Facts    amd.DriverFacts
	Wanted   amd.Wanted
	HasGPUs  bool // tasks get GPUs in any case
}

// drainBeforeUpgrade lets the tasks of a running worker end before its programs are
// replaced. Longer tasks continue under the new programs. An attached release of another
// version ends no task.
func drainBeforeUpgrade(o Observed) plan.Resource {
	state := o.Units[concourse.Unit]
	if !state.Running() {
		return nil
	}
	return role.Series{
		role.StepOf(
			"look at the version of the release", "before tasks are drained for it",
			func(_ context.Context, h host.Host) error {
				got, err := h.ReadText(path.Join(release.Dir, o.ReleaseID, "VERSION"))
				if _, back := o.Release.Avoided(h.Root); err == nil && !back && o.Release.Version != "" &&
					got != o.Release.Version {
					err = &release.VersionError{Path: "the attached release", Want: o.Release.Version, Got: got}
				}
				return err
			}),
		concourse.Retire{
			State: state, Limit: o.Config.DrainTimeout,
			Why: "another release of Concourse takes its place",
		},
	}
}
