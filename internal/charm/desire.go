package charm

import (
	"fmt"
	"path/filepath"
	"strings"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
)

// Desired is what the machine and the relations should be.
type Desired struct {
	Resources []plan.Resource
	Causes    []Cause // why the unit is not ready, as far as it can be known before applying
	Suffix    string  // of the status text when nothing is in the way: " (GPU: 1x AMD)"

	Remove bool // the unit is going away

	Worker   bool // the worker should be running after applying
	LogLevel string
	// Invocation is systemd's id of the worker's process as it was observed.
	Invocation string
	Exporter   bool // the exporter should be running after applying
	Toolkit    bool // the toolkit is wanted; a failed attempt belongs into the status
}

// Desire decides, and does nothing else: the same Observed gives the same
// Desired, except for functions in resources that cannot be compared.
func Desire(o Observed) Desired {
	if leaving(o.Event) {
		return desireNothing(o)
	}
	d := Desired{LogLevel: o.Config.LogLevel, Invocation: o.Units[concourse.Unit].Invocation}
	gpus := decideGPUs(o.Config, o.GPUs, o.Machine, o.NVIDIA)
	d.Causes = append(d.Causes, gpus.Causes...)
	d.Suffix = gpus.Suffix() + folderSuffix(o)

	d.Resources = append(d.Resources, concourse.Folders()...)
	d.Resources = append(d.Resources, charmFiles(o)...)
	d.Resources = append(d.Resources, o.Release, concourse.Key{Path: concourse.WorkerKey, Bits: concourse.WorkerKeyBits})
	wired, err := desireGPUs(&d, o, gpus)
	if err == nil {
		err = desireWorker(&d, o, gpus, wired)
	}
	if err == nil {
		err = desireExporter(&d, o, gpus)
	}
	if err != nil {
		d.Resources = append(d.Resources, impossible{err})
	}
	return d
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
	pebbleBin   = BinDir + "/pebble"
)

func charmFiles(o Observed) []plan.Resource {
	from := func(name string) string { return filepath.Join(o.CharmDir, "bin", name) }
	return []plan.Resource{
		resource.Dir{Path: StateDir, Mode: 0o700},
		resource.Copy{Path: exporterBin, From: from("rocm-exporter"), Mode: 0o755},
		resource.Copy{Path: pebbleBin, From: from("pebble"), Mode: 0o755},
		resource.Copy{Path: concourse.Wrapper, From: from("runc-amd-wrapper"), Mode: 0o755},
	}
}

// desireWorker is the worker itself. It is up only with a web to register at:
// one that has none waits, and is never active (D4).
func desireWorker(d *Desired, o Observed, gpus GPUs, wired bool) error {
	cfg := concourse.WorkerConfig{
		Name: concourse.WorkerName(o.Facts.Unit, o.WorkerID), LogLevel: o.Config.LogLevel, TSA: o.TSA,
		Tags: concourse.Tags(o.Config.Tags, gpuTags(gpus)), Wrapped: wired,
		DNSProxy: o.Config.DNSProxy, DNSServers: o.Config.DNSServers, Proxy: proxyOf(o.Facts, o.Config),
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
	registers := o.TSA.Complete() && len(o.Facts.Flights) == 1
	d.Resources = append(d.Resources, concourse.OperatorEnv{}, concourse.WorkerID(o.WorkerID), unit,
		resource.Trigger{Name: reloadWorker, Inputs: [][]byte{unit.Data}, Op: "reload systemd for " + concourse.Unit,
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
	d.Worker = true
	d.Resources = append(d.Resources, env, key,
		resource.Service{Unit: concourse.Unit, State: state, Up: true},
		// The new process takes the running tasks over, see concourse.Drain.
		resource.Trigger{Name: restartWorker, Inputs: [][]byte{unit.Data, env.Data, key.Data, []byte(o.ReleaseID)},
			Op: "restart " + concourse.Unit, Adopt: starts(state),
			Then: []host.Command{resource.Systemctl("restart", concourse.Unit)}})
	return nil
}

// webCauses says what is missing to reach a web.
func webCauses(o Observed) []Cause {
	app, _, _ := strings.Cut(o.Facts.Unit, "/")
	var causes []Cause
	switch {
	case len(o.Facts.Flights) == 0:
		causes = append(causes, Cause{Waiting, fmt.Sprintf("Waiting for a web: run juju integrate %s:flight <web application>:tsa", app)})
	case len(o.Facts.Flights) > 1:
		causes = append(causes, Cause{Blocked, fmt.Sprintf("flight: related to %d webs and a worker serves one; remove one with juju remove-relation", len(o.Facts.Flights))})
	case !o.TSA.Complete():
		causes = append(causes, Cause{Waiting, "Waiting for TSA connection info..."})
	}
	for _, p := range o.TSAProblems {
		causes = append(causes, Cause{Waiting, "flight: " + p})
	}
	return causes
}

func gpuTags(g GPUs) concourse.GPUTags {
	t := concourse.GPUTags{Count: len(g.Chosen)}
	t.Runtime = "rocm"
	if g.Vendor == gpu.NVIDIA {
		t.Runtime = "cuda"
	}
	for _, of := range g.Chosen {
		t.Archs = append(t.Archs, of.GFX)
	}
	return t
}
