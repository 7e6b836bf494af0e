// Package worker decides what a unit that is a worker should be. Observe looks at what
// that depends on, Desire says what should be, and Gone what it leaves to be taken
// away. Each file is one subject: the GPUs, how they are handed to tasks, leases,
// AMD's driver, the folders, the limit of tasks, the exporter.
package worker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/predecessor"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/gpu"
)

// Desire decides what a worker should be, and does nothing else: the same
// Observed gives the same Desired, except for functions in resources that
// cannot be compared. gone takes away what the other role left on the unit.
func Desire(o Observed, gone []plan.Resource) Desired {
	d := desireWorkerUnit(o, gone)
	// A worker of the Python charm that has no relation at the takeover runs on; one that
	// loses it in this hook ends.
	d.Refused = role.Refusals(o.Observed, d.Up || lostWeb(o.Observed), d.Causes)
	return d
}

// Ending returns what ends of a worker whose options are wrong: its tasks, if its
// relation to the web ended. All else waits for right options.
func Ending(h host.Host, o role.Observed) ([]plan.Resource, error) {
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

// drain ends a worker that has no web any more.
func drain(o role.Observed) plan.Resource {
	return concourse.Drain{State: o.Units[concourse.Unit], Limit: o.Config.WorkerDrainTimeout, Why: "it has no web to register at", Disrupts: role.RunningTasks}
}

func desireWorkerUnit(o Observed, gone []plan.Resource) Desired {
	d := Desired{Desired: role.Desired{Release: o.Release}, Worker: Worker{LogLevel: o.Config.LogLevel, Drain: o.Config.WorkerDrainTimeout, Invocation: o.Units[concourse.Unit].Invocation}}
	gpus := DecideGPUs(o.Config, o.GPUs, o.Known, o.Machine, o.NVIDIA)
	d.Known = gpus.miss(o)
	gpus.withhold(&d, o)
	d.Causes = append(append(d.Causes, gpus.Causes...), gpus.Remarks...)
	d.Suffix = gpus.Suffix() + folderSuffix(o)
	d.GPUs = publishedGPUs(o, gpus)

	d.Resources = append(d.Resources, gone...)
	d.Resources = append(d.Resources, concourse.Folders(o.Shared())...)
	d.Resources = append(d.Resources, role.CharmFiles(o.Observed)...)
	d.TrustAuthorities(o.Observed)
	role.DesireRelease(&d.Desired, o.Observed, beforeWorkerSwitch(o))
	d.Resources = append(d.Resources, concourse.Key{Path: concourse.WorkerKey, Bits: concourse.WorkerKeyBits})
	desireDriver(&d, o, gpus)
	wired, err := desireGPUs(&d, o, gpus)
	if err == nil {
		err = desireWorker(&d, o, gpus, wired)
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

// desireWorker is the worker itself. It is up only with a web to register at:
// one that has none waits, and is never active (D4).
func desireWorker(d *Desired, o Observed, gpus GPUs, wired bool) error {
	tasks := desireWorkerLimit(d, o, gpus)
	cfg := concourse.WorkerConfig{
		Name: role.WorkerName(o.KeptName, o.Facts.Unit, o.WorkerID), WorkDir: concourse.WorkFolder(o.Shared()), LogLevel: o.Config.LogLevel, TSA: o.TSA,
		Tags: concourse.Tags(ofUnit(o.Config.Tags, o.Facts.Unit), gpuTags(gpus, gpus.Tagged)), Wrapped: wired, MaxTasks: tasks,
		DNSProxy: o.Config.ContainerdDNSProxy, DNSServers: o.Config.ContainerdDNSServers, Proxy: role.ProxyOf(o.Facts, o.Config),
	}
	var traced []status.Cause
	cfg.Tracing, traced = role.Tracing(o.Observed, o.WorkerEnv, nil, "concourse-worker")
	cfg.CertsDir = certsFolder(d.Trusted)
	certs, certsGone := desireCertsFolder(o, cfg.CertsDir)
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
		d.Resources = append(d.Resources, predecessor.NameFile(concourse.WorkFolder(o.Shared()), o.KeptName))
	}
	d.Resources = append(d.Resources, certs...)
	d.Resources = append(d.Resources, concourse.OperatorEnv{}, concourse.WorkerID(concourse.WorkFolder(o.Shared()), o.WorkerID), unit,
		resource.Trigger{Name: ReloadWorker, Inputs: [][]byte{unit.Data}, Files: []string{unit.Path}, Op: "reload systemd for " + concourse.Unit,
			Then: []host.Command{resource.Systemctl("daemon-reload")}})
	d.Causes = slices.Concat(d.Causes, webCauses(o), traced)
	if !registers {
		d.Resources = append(d.Resources, drain(o.Observed))
		if !state.Running() || role.EndsTasks(o.Event, o.Facts) {
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
	d.Up = true
	if gpus.Asked && len(gpus.Tagged) == 0 {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: "steps without tags go to other workers meanwhile: this one keeps the tag gpu-count=0"})
	}
	d.Resources = append(d.Resources, env, key,
		resource.Service{Unit: concourse.Unit, State: state, Up: true},
		// The new process takes the running tasks over, see concourse.Drain.
		resource.Trigger{Name: RestartWorker, Inputs: append([][]byte{unit.Data, env.Data, key.Data, []byte(o.ReleaseID)}, d.TrustInputs()...),
			Files: []string{unit.Path, env.Path, key.Path}, Unit: concourse.Unit, State: state,
			Op: "restart " + concourse.Unit, Adopt: role.Starts(state),
			Then: []host.Command{resource.Systemctl("restart", concourse.Unit)}})
	d.Resources = append(d.Resources, certsGone...)
	return nil
}

// webCauses says what is missing to reach a web.
func webCauses(o Observed) []status.Cause {
	app, _, _ := strings.Cut(o.Facts.Unit, "/")
	var causes []status.Cause
	switch {
	case o.Facts.Mode() == "auto":
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
	if v := o.Config.Version; v != "" && !release.Fits(o.TSA.Version, v) {
		causes = append(causes, status.Cause{Kind: status.Blocked, Text: fmt.Sprintf(
			"a worker of Concourse %s gets no work from a web of %s: to follow the web, run juju config %s --reset version", v, o.TSA.Version, app)})
	}
	for _, p := range o.TSAProblems {
		causes = append(causes, status.Cause{Kind: status.Waiting, Text: "flight: " + p})
	}
	return causes
}

// ofUnit puts the unit's name into the operator's tags: one application has one option
// for all its units, and a step that is for one of them asks for its tag.
func ofUnit(tags []string, unit string) (own []string) {
	for _, t := range tags {
		own = append(own, strings.ReplaceAll(t, "{unit}", strings.ReplaceAll(unit, "/", "-")))
	}
	return own
}

// gpuTags is what tells of these GPUs.
func gpuTags(g GPUs, of []gpu.GPU) concourse.GPUTags {
	t := concourse.GPUTags{Count: len(of)}
	if !g.Asked {
		return t
	}
	// Whose GPUs it is to have may be open still: gpu-count=0 is a tag all the same.
	t.Runtime = cmp.Or(g.Vendor, gpu.AMD).Traits().Runtime
	for _, one := range of {
		t.Archs = append(t.Archs, one.GFX)
	}
	return t
}
