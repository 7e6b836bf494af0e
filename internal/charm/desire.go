package charm

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/juju"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/postgres"
	"concourse-ci-machine/internal/relation"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/rocm"
	"concourse-ci-machine/internal/status"
)

// Desired is what the machine and the relations should be.
type Desired struct {
	Resources []plan.Resource
	Causes    []status.Cause // why the unit is not ready, as far as it can be known before applying
	Suffix    string         // of the status text when nothing is in the way: " (GPU: 1x AMD)"

	Remove bool // the unit is going away
	// Refused is why nothing at all is done: the Python charm's service can't be
	// taken over yet, and runs on.
	Refused []status.Cause

	Worker      bool   // the worker should be running after applying
	Web         bool   // the web should be running after applying
	WebURL      string // where people find it
	LocalURL    string // where this machine does
	Shared      bool   // the release lies on shared storage
	Release     *concourse.Release
	Secret      map[string]string // what the application's secret should hold, nil where this unit has no say
	Request     string            // for a certificate, PEM
	Ports       []juju.Port
	TSA         concourse.TSA         // where the worker registers
	Database    concourse.WebDatabase // of a web that is to be running, as Concourse takes it
	Repair      postgres.Config       // the same, for the charm's own connections
	Environment map[string]string     // of that web
	LogLevel    string
	// Invocation is systemd's id of the worker's process as it was observed.
	Invocation string
	GPUs       relation.WorkerGPUs // of a worker, as the web is told
	Known      KnownGPUs           // to be remembered
	asked      string              // release that was asked for its limit
	Exporter   bool                // rocm-exporter should be running after applying
	Jobs       bool                // concourse-exporter should be, and Concourse's own metrics
	Toolkit    bool                // the toolkit is wanted; a failed attempt belongs into the status
	NVIDIA     bool                // the same for NVIDIA's
	Describes  bool                // applying can give tasks NVIDIA GPUs that they have not now
	Driver     *Driver
}

// desired is what every unit starts with. A hook does it before all else: here it
// is for who asks for the plan.
func desired(d Desired) Desired {
	d.Resources = append([]plan.Resource{rocm.ToolkitKept()}, d.Resources...)
	return d
}

// DesireWorker decides what a worker should be, and does nothing else: the same
// WorkerObserved gives the same Desired, except for functions in resources that
// cannot be compared.
func DesireWorker(o WorkerObserved) Desired {
	d := desireWorkerUnit(o)
	d.Refused = refusals(o.UnitObserved, d)
	return desired(d)
}

func desireWorkerUnit(o WorkerObserved) Desired {
	d := Desired{Shared: o.shared(), Release: o.Release, LogLevel: o.Config.LogLevel, Invocation: o.Units[concourse.Unit].Invocation}
	gpus := DecideGPUs(o.Config, o.GPUs, o.Machine, o.NVIDIA)
	d.Known = gpus.miss(o)
	d.Causes = append(append(d.Causes, gpus.Causes...), gpus.Remarks...)
	d.Suffix = gpus.Suffix() + folderSuffix(o)
	d.GPUs = publishedGPUs(o, gpus)

	d.Resources = append(d.Resources, notWeb(o.UnitObserved)...)
	d.Resources = append(d.Resources, concourse.Folders(o.shared())...)
	d.Resources = append(d.Resources, charmFiles(o.UnitObserved)...)
	desireRelease(&d, o.UnitObserved, beforeWorkerSwitch(o))
	d.Resources = append(d.Resources, concourse.Key{Path: concourse.WorkerKey, Bits: concourse.WorkerKeyBits})
	desireDriver(&d, o, gpus)
	wired, err := desireGPUs(&d, o, gpus)
	if err == nil {
		err = desireWorker(&d, o, gpus, wired)
	}
	d.takeOver(o.UnitObserved)
	if err == nil {
		err = desireExporter(&d, o, gpus)
	}
	if err != nil {
		d.Resources = append(d.Resources, impossible{err})
	}
	return d
}

// takeOver comes when the unit's own service is as it should be, and before an
// exporter, whose port the Python charm's has.
func (d *Desired) takeOver(o UnitObserved) {
	d.Resources = append(d.Resources, o.Predecessor...)
}

// The triggers, which are also the names of their stamps.
const (
	reloadWorker  = "daemon-reload-worker"
	restartWorker = "restart-worker"
	reloadPebble  = "daemon-reload-pebble"
	restartPebble = "restart-pebble"
)

// starts reports whether a unit that is wanted up is started by this run, with
// all that was written before: one that is up or about to be is not.
func starts(s resource.UnitState) bool { return !s.Running() && s.Active != "activating" }

// impossible is desired state that could not be written down; it fails the
// plan, so that nothing is applied by halves.
type impossible struct{ err error }

// Where the charm's own programs are installed: an upgrade of the charm
// replaces its folder, and running programs should not be in it.
const (
	BinDir      = "/opt/concourse-ci-machine/bin"
	exporterBin = BinDir + "/rocm-exporter"
	jobsBin     = BinDir + "/concourse-exporter"
	pebbleBin   = BinDir + "/pebble"
)

// charmFiles are the charm's own programs that a unit of its role runs.
func charmFiles(o UnitObserved) []plan.Resource {
	copy := func(path, name string) resource.Copy {
		return resource.Copy{Path: path, From: filepath.Join(o.CharmDir, "bin", name), Mode: 0o755}
	}
	files := []plan.Resource{resource.Dir{Path: model.StateDir, Mode: 0o700}, copy(pebbleBin, "pebble")}
	if o.Facts.Role == model.WebRole {
		return append(files, copy(jobsBin, "concourse-exporter"))
	}
	return append(files, copy(exporterBin, "rocm-exporter"), copy(concourse.Wrapper, "runc-amd-wrapper"))
}

// desireWorker is the worker itself. It is up only with a web to register at:
// one that has none waits, and is never active (D4).
func desireWorker(d *Desired, o WorkerObserved, gpus GPUs, wired bool) error {
	tasks := desireWorkerLimit(d, o)
	cfg := concourse.WorkerConfig{
		Name: workerName(o.KeptName, o.Facts.Unit, o.WorkerID), WorkDir: concourse.WorkFolder(o.shared()), LogLevel: o.Config.LogLevel, TSA: o.TSA,
		Tags: concourse.Tags(o.Config.Tags, gpuTags(gpus)), Wrapped: wired, MaxTasks: tasks,
		DNSProxy: o.Config.DNSProxy, DNSServers: o.Config.DNSServers, Proxy: ProxyOf(o.Facts, o.Config),
	}
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
	registers := o.TSA.Complete() && (model.ModeOf(o.Facts.Config) == "auto" || len(o.Facts.Flights) == 1)
	if o.KeptName != "" {
		d.Resources = append(d.Resources, concourse.WorkerNameKept(concourse.WorkFolder(o.shared()), o.KeptName))
	}
	d.Resources = append(d.Resources, concourse.OperatorEnv{}, concourse.WorkerID(concourse.WorkFolder(o.shared()), o.WorkerID), unit,
		resource.Trigger{Name: reloadWorker, Inputs: [][]byte{unit.Data}, Files: []string{unit.Path}, Op: "reload systemd for " + concourse.Unit,
			Then: []host.Command{resource.Systemctl("daemon-reload")}})
	d.Causes = append(d.Causes, webCauses(o)...)
	if !registers {
		why := "it has no web to register at"
		d.Resources = append(d.Resources, concourse.Drain{State: state, Limit: o.Config.DrainTimeout, Why: why, Disrupts: RunningTasks})
		if !state.Running() || endsTasks(o.Event) {
			// A worker left running while its web is away keeps what it was started with.
			d.Resources = append(d.Resources, env)
		}
		return nil
	}
	key := o.TSA.HostKeyFile()
	if o.Landed {
		d.Resources = append(d.Resources, env, key)
		d.Causes = append(d.Causes, status.Cause{Kind: status.Waiting, Text: "Worker landed by an action: run restart-services to make it take work again"})
		return nil
	}
	d.Worker = true
	if gpus.Asked && len(gpus.Chosen) == 0 {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: "steps without tags go to other workers meanwhile: this one keeps the tag gpu-count=0"})
	}
	d.Resources = append(d.Resources, env, key,
		resource.Service{Unit: concourse.Unit, State: state, Up: true},
		// The new process takes the running tasks over, see concourse.Drain.
		resource.Trigger{Name: restartWorker, Inputs: [][]byte{unit.Data, env.Data, key.Data, []byte(o.ReleaseID)},
			Files: []string{unit.Path, env.Path, key.Path}, Unit: concourse.Unit, State: state,
			Op: "restart " + concourse.Unit, Adopt: starts(state),
			Then: []host.Command{resource.Systemctl("restart", concourse.Unit)}})
	return nil
}

// workerName is the one that the web knows the worker by.
func workerName(kept, unit, id string) string { return cmp.Or(kept, concourse.WorkerName(unit, id)) }

// webCauses says what is missing to reach a web.
func webCauses(o WorkerObserved) []status.Cause {
	app, _, _ := strings.Cut(o.Facts.Unit, "/")
	var causes []status.Cause
	switch {
	case model.ModeOf(o.Facts.Config) == "auto":
		if !o.TSA.Complete() {
			causes = append(causes, status.Cause{Kind: status.Waiting, Text: "Waiting for the leader's web: it says in juju status what it waits for"})
		}
	case len(o.Facts.Flights) == 0:
		causes = append(causes, status.Cause{Kind: status.Waiting, Text: fmt.Sprintf("Waiting for a web: run juju integrate %s:flight <web application>:tsa", app)})
	case len(o.Facts.Flights) > 1:
		causes = append(causes, status.Cause{Kind: status.Blocked, Text: fmt.Sprintf("flight: related to %d webs and a worker serves one; remove one with juju remove-relation", len(o.Facts.Flights))})
	case !o.TSA.Complete():
		causes = append(causes, status.Cause{Kind: status.Waiting, Text: "Waiting for TSA connection info..."})
	}
	for _, p := range o.TSAProblems {
		causes = append(causes, status.Cause{Kind: status.Waiting, Text: "flight: " + p})
	}
	return causes
}

func gpuTags(g GPUs) concourse.GPUTags {
	t := concourse.GPUTags{Count: len(g.Chosen)}
	if !g.Asked {
		return t
	}
	t.Runtime = "rocm"
	if g.Vendor == gpu.NVIDIA {
		t.Runtime = "cuda"
	}
	for _, of := range g.Chosen {
		t.Archs = append(t.Archs, of.GFX)
	}
	return t
}
