package worker

import (
	"path/filepath"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/templates"
)

// The systemd units that describe GPUs again between two hooks, and the program that they
// run. The program is a copy, because the charm's folder is incomplete during an upgrade.
const (
	RefreshUnit    = "concourse-cdi-refresh.path"
	RefreshService = "concourse-cdi-refresh.service"
	refreshTimer   = "concourse-cdi-refresh.timer"
	unitDir        = "/etc/systemd/system/"
	dispatchBin    = role.BinDir + "/dispatch"
	ReloadRefresh  = "daemon-reload-cdi-refresh"
)

func refreshFiles() []string {
	return []string{unitDir + RefreshService, unitDir + refreshTimer, unitDir + RefreshUnit, dispatchBin}
}

// desireRefresh returns the systemd units on workers with GPUs. The path unit starts the
// timer.
func desireRefresh(o Observed, g GPUs) (p part) {
	state := o.Units[RefreshUnit]
	if g.Vendor == "" && o.Config.GPU.ComputeRuntime != config.RuntimeAuto {
		p.add(removeRefresh(o.Units, "compute-runtime is "+string(o.Config.GPU.ComputeRuntime))...)
		return p
	}
	var all [][]byte
	var paths []string
	files := []plan.Resource{resource.Copy{Path: dispatchBin, From: filepath.Join(o.CharmDir, "dispatch"), Mode: 0o755}}
	for _, name := range []string{RefreshService, refreshTimer, RefreshUnit} {
		data, err := templates.Render(name, map[string]string{"Dispatch": dispatchBin})
		if err != nil {
			return part{err: err}
		}
		all, paths = append(all, data), append(paths, unitDir+name)
		files = append(files, resource.File{Path: unitDir + name, Data: data, Mode: 0o644})
	}
	then := []host.Command{resource.Systemctl("daemon-reload")}
	if !role.Starts(state) { // a running path unit watches the old paths
		then = append(then, resource.Systemctl("try-restart", RefreshUnit, refreshTimer))
	}
	p.add(files...)
	p.add(resource.Trigger{
		Name: ReloadRefresh, Inputs: all, Files: paths, Op: "reload systemd for " + RefreshUnit, Then: then,
	}, resource.Service{Unit: RefreshUnit, State: state, Up: true})
	return p
}

func removeRefresh(units map[string]resource.UnitState, why string) []plan.Resource {
	return append(stopRefresh(units, why), resource.AllAbsent(why, refreshFiles()...)...)
}

// stopRefresh stops the service after what starts it. It would otherwise fail, because its
// program is removed while it waits for a burst of changes to end.
func stopRefresh(units map[string]resource.UnitState, why string) []plan.Resource {
	return []plan.Resource{
		resource.Service{Unit: RefreshUnit, State: units[RefreshUnit], Why: why},
		resource.Service{Unit: RefreshService, State: units[RefreshService], Why: why},
	}
}

// RefreshResources returns the resources for the GPUs that are present now.
func RefreshResources(o Observed) []plan.Resource {
	g := DecideGPUs(o)
	g.reportMissing(o) // with compute-runtime=auto a unit that lost all GPUs stays a GPU worker
	spec := eachVendor(func(v vendor) part { return v.describe(o, g) })
	if spec.err != nil {
		return []plan.Resource{role.Impossible{Err: spec.err}}
	}
	var d role.Desired
	d.KnowAuthorities(o.Observed) // the last hook had the machine trust them
	// Without a GPU and without folders the wrapper stays and gives nothing to tasks,
	// because its removal requires a restart.
	config, _ := wrapperConfig(o, g, d.Trusted) // the hook reports the error
	file, err := wrapperFile(config)
	if err != nil {
		return []plan.Resource{role.Impossible{Err: err}}
	}
	spec.join(desireLabels(o, g))
	spec.add(file)
	return spec.resources
}
