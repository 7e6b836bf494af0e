// Package worker decides the desired state of a unit that is a worker. Observe reads the
// machine, Desire returns the resources and causes, and RemoveForWeb and RemoveAll return
// what to remove. It changes nothing itself. Each file has one subject: GPUs, the wrapper,
// leases, quarantine, each vendor, folders, the limit of tasks, the exporter, Kubernetes.
package worker

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/predecessor"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// Desire decides the desired state of a worker and has no other effect: equal Observed give
// equal Desired, except for functions in resources, which cannot be compared. removal
// removes the other role from the unit.
func Desire(o Observed, removal []plan.Resource) Desired {
	d := desireWorkerUnit(o, removal)
	if !o.WebHas() {
		d.AddPebble(o.Observed)
	}
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
		State: o.Units[concourse.Unit], Limit: o.Config.Worker.DrainTimeout,
		Why: "it has no web to register at", Disrupts: role.RunningTasks,
	}
}

// desireWorkerUnit joins the parts of a worker. The order of the parts is the order in
// which resources are applied.
func desireWorkerUnit(o Observed, removal []plan.Resource) Desired {
	gpus := DecideGPUs(o)
	known := gpus.reportMissing(o)
	all := gpus.applyQuarantine(o)
	all.addCauses(rankGPUs, gpus.Causes)
	all.addCauses(rankGPUs, gpus.Warnings)
	w := Worker{
		Volumes: concourse.WorkFolder(o.Shared()),
		Suffix:  gpus.Suffix() + folderSuffix(o), LogLevel: string(o.Config.LogLevel),
		Invocation: o.Units[concourse.Unit].Invocation, Drain: o.Config.Worker.DrainTimeout,
		GPUs: publishedGPUs(o, gpus), Known: known, LimitRelease: o.LimitRelease,
		Kubernetes: servingKubelet(o, gpus), Watches: len(gpus.All) > 0, Exporter: exports(o, gpus),
	}
	var trusted role.Desired
	trusted.TrustAuthorities(o.Observed)
	held := holdTags(o, gpus)
	if held.holds {
		all.resources = nil // the record of the tags changes with them
	}
	all.add(removal...)
	all.add(concourse.Folders(o.Shared())...)
	if !o.WebHas() { // a unit with a web has these parts from the web
		all.add(role.CharmFiles(o.Observed)...)
		all.addShared(rankAuthorities, trusted)
		all.addShared(rankRelease, role.DesireRelease(o.Observed, DrainBeforeUpgrade(o.Observed)))
	}
	all.add(concourse.Key{Path: concourse.WorkerKey, Bits: beacon.WorkerKeyBits})
	if held.holds {
		all.join(held.part, part{causes: desireForTasks(o, gpus, &Worker{}, trusted).causes})
		w.keepGPUs(o)
	} else {
		// If a step fails, the next hook must not hold the tags again.
		all.join(desireForTasks(o, gpus, &w, trusted), held.part)
	}
	if all.err == nil {
		w.TSA, w.Up = o.TSA, registers(o) && !o.Landed
	}
	if !o.WebHas() {
		all.add(o.Predecessor...)
		all.add(role.NoJobExporter("this unit is a worker")...)
	}
	d := Desired{Worker: w, Desired: role.Desired{Release: o.Release, Trusted: trusted.Trusted}}
	if all.err == nil {
		exporter := gpuExporter(o, gpus)
		exporter.Held = held.holds
		d.Pebble = []role.PebbleService{exporter}
	} else {
		all.add(role.Impossible{Err: all.err})
	}
	d.Resources, d.Causes = all.resources, all.sortedCauses()
	return d
}

// desireForTasks returns the worker itself and everything that its tasks depend on.
func desireForTasks(o Observed, gpus GPUs, w *Worker, trusted role.Desired) (all part) {
	wrapper, wrapped := desireWrapper(o, gpus, trusted.Trusted)
	all.join(eachVendor(func(v vendor) part { return v.desire(o, gpus, w) }))
	all.add(removeOtherVendor(o, gpus)...)
	all.join(eachVendor(func(v vendor) part { return v.describe(o, gpus) }),
		desireRefresh(o, gpus),
		desireLeases(o, gpus),
		desireTools(o, gpus),
		desireEngines(o, gpus),
		desireLabels(o, gpus),
		desireKubernetes(o, gpus),
		wrapper)
	if all.err == nil {
		all.join(desireWorker(o, gpus, trusted, wrapped), desireRecorder(o))
	}
	return all
}

// registers reports whether the unit has one web to register at.
func registers(o Observed) bool {
	return o.TSA.Complete() && (o.Facts.LeaderIsWeb() || len(o.Facts.Flights) == 1)
}

// The triggers, which are also the names of their stamps.
const (
	ReloadWorker  = "daemon-reload-worker"
	RestartWorker = "restart-worker"
)

// desireWorker returns the worker itself. It runs only with a web to register at. Without a
// web the unit waits, and is never active (D4).
func desireWorker(o Observed, gpus GPUs, trusted role.Desired, wrapped bool) part {
	p := desireWorkerLimit(o)
	workDir := concourse.WorkFolder(o.Shared())
	cfg := concourse.WorkerConfig{
		Name: role.WorkerName(o.KeptName, o.Facts.Unit, o.WorkerID), WorkDir: workDir,
		LogLevel: string(o.Config.LogLevel), TSA: o.TSA,
		Tags:    workerTags(o, gpus),
		Wrapped: wrapped, MaxTasks: maxTasks(o, gpus), CertsDir: certsFolder(trusted.Trusted),
		WorkerOptions: o.Config.Worker.WorkerOptions, Proxy: role.ProxyOf(o.Facts, o.Config),
	}
	if len(cfg.ContainerdDNSServer) == 0 {
		cfg.ContainerdDNSServer = o.NameServers
	}
	var traced []status.Cause
	cfg.Tracing, traced = role.Tracing(o.Observed, o.WorkerEnv, nil, "concourse-worker")
	certs, certsRemoval := desireCertsFolder(o, cfg.CertsDir)
	env, err := cfg.File(o.WorkerEnv)
	if err != nil {
		p.err = err
		return p
	}
	unit, err := concourse.WorkerUnit()
	if err != nil {
		p.err = err
		return p
	}
	if o.KeptName != "" {
		p.add(predecessor.NameFile(workDir, o.KeptName))
	}
	p.add(certs...)
	p.add(concourse.OperatorEnv{}, concourse.WorkerID(workDir, o.WorkerID), unit,
		resource.Trigger{
			Name: ReloadWorker, Inputs: [][]byte{unit.Data}, Files: []string{unit.Path},
			Op:   "reload systemd for " + concourse.Unit,
			Then: []host.Command{resource.Systemctl("daemon-reload")}})
	p.join(webCauses(o))
	p.addCauses(rankTracing, traced)
	state := o.Units[concourse.Unit]
	if !registers(o) {
		p.add(drain(o.Observed))
		if !state.Running() || role.EndsTasks(o.Event, o.Facts) {
			// A worker that runs without its web keeps its environment.
			p.add(env)
		}
		return p
	}
	key := o.TSA.HostKeyFile()
	p.add(env, key)
	if o.Landed {
		p.add(concourse.Landing{State: state})
		if state.Running() {
			p.cause(rankWorker, status.Wait("Worker is landing and stops when its tasks end"))
			return p
		}
		p.cause(rankWorker, status.Wait("Worker landed by an action and takes no work").
			Run(o.Facts.Commands().RunAction("restart-services")))
		return p
	}
	if gpus.Requested && len(gpus.Tagged) == 0 {
		p.cause(rankWorker, status.Warn("steps without tags go to other workers: this one has the tag gpu-count=0"))
	}
	inputs := append([][]byte{unit.Data, env.Data, key.Data, []byte(o.ReleaseID)}, trusted.TrustInputs()...)
	p.add(resource.Service{Unit: concourse.Unit, State: state, Up: true},
		// The new process adopts the running tasks, see concourse.Drain.
		resource.Trigger{
			Name: RestartWorker, Inputs: inputs, Files: []string{unit.Path, env.Path, key.Path},
			Unit: concourse.Unit, State: state, Op: "restart " + concourse.Unit, Adopt: role.Starts(state),
			Then: []host.Command{resource.Systemctl("restart", concourse.Unit)}})
	p.add(certsRemoval...)
	return p
}

// webCauses returns what is missing to reach a web.
func webCauses(o Observed) (p part) {
	app, _, _ := strings.Cut(o.Facts.Unit, "/")
	switch {
	case o.Facts.LeaderIsWeb():
		switch {
		case o.TSA.Complete():
		case o.Facts.Commands().WithoutJuju():
			p.cause(rankWeb, status.Wait("Waiting for the web of this machine").Run("sudo "+wellknown.MachineProgram+" logs"))
		default:
			p.cause(rankWeb, status.Wait("Waiting for the leader's web: see the leader's status"))
		}
	case len(o.Facts.Flights) == 0:
		p.cause(rankWeb, status.Wait("Waiting for a web").
			Run(o.Facts.Commands().Integrate("--join=<line of invite>", "flight", "<web application>:tsa")))
	case len(o.Facts.Flights) > 1:
		p.cause(rankWeb, status.Block("flight: related to %d webs, and a worker serves one", len(o.Facts.Flights)).
			Run("juju remove-relation "+app+":flight <web application>"))
	case !o.TSA.Complete():
		p.cause(rankWeb, status.Wait("Waiting for TSA connection info..."))
	}
	if v := o.Config.Release.Version; v != "" && !release.Fits(o.TSA.Version, v) {
		p.cause(rankWeb, status.Block("a worker of Concourse %s gets no work from a web of %s", v, o.TSA.Version).
			Fix("to follow the web, run: "+o.Facts.Commands().ResetOption("version")))
	}
	for _, problem := range o.TSAProblems {
		p.cause(rankWeb, status.Wait("flight: %s", problem))
	}
	return p
}

// workerTags returns the tags that the worker registers with.
func workerTags(o Observed, g GPUs) []string {
	return beacon.Tags(unitTags(o.Config.Worker.Tag, o.Facts.Unit), gpuTags(g, g.Tagged))
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
func gpuTags(g GPUs, gpus []gpu.GPU) beacon.GPUTags {
	t := beacon.GPUTags{Count: len(gpus)}
	if !g.Requested {
		return t
	}
	t.Runtime = g.assumed().Traits().Runtime // gpu-count=0 is a tag in any case
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

	Volumes      string              // folder of Concourse's volumes
	Drain        time.Duration       // time for its tasks at removal; published to the web
	GPUs         relation.WorkerGPUs // published to the web
	Known        KnownGPUs           // to record
	LimitRelease string              // release in WorkerLimitFile

	Kubernetes    string     // the service that offers the GPUs to a kubelet after applying, "" for none
	Exporter      bool       // rocm-exporter should be running after applying
	Watches       bool       // rocm-exporter has GPUs to watch, so that a status depends on it
	Toolkit       gpu.Vendor // whose container toolkit is required, "" for none
	generatesSpec bool       // applying can describe GPUs that tasks do not get yet
	Driver        *Driver
}

// Driver holds the decision on the driver of AMD GPUs, with its input.
type Driver struct {
	Decision amd.Decision
	Facts    amd.DriverFacts
	Wanted   amd.Wanted
	HasGPUs  bool // tasks get GPUs in any case
}

// DrainBeforeUpgrade lets the tasks of a running worker end before its programs are
// replaced. Longer tasks continue under the new programs. An attached release of another
// version ends no task.
func DrainBeforeUpgrade(o role.Observed) plan.Resource {
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
			State: state, Limit: o.Config.Worker.DrainTimeout,
			Why: "another release of Concourse takes its place",
		},
	}
}
