package charm

import (
	"context"
	"encoding/json"
	"strconv"

	"concourse-ci-machine/internal/cdi"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/rocm"
	"concourse-ci-machine/templates"
)

// Diff implements plan.Resource.
func (i impossible) Diff(context.Context, host.Host) (plan.Plan, error) { return nil, i.err }

// desireGPUs is AMD's toolkit, the CDI description of the unit's GPUs and the
// wrapper that hands the chosen ones to tasks. wired says that the worker has
// to run its containers through the wrapper.
func desireGPUs(d *Desired, o Observed, g GPUs) (wired bool, err error) {
	if g.Vendor == gpu.AMD && len(g.All) > 0 {
		d.Toolkit = true
		want := rocm.Toolkit{Mode: o.Config.Toolkit, Version: o.Config.ToolkitVersion, BaseURL: o.Config.ROCmBaseURL,
			Series: o.Machine.Series, Arch: o.Arch, Proxies: aptProxies(o), Seen: o.Toolkit, Now: o.Now}.Want()
		d.Resources = append(d.Resources, want.Resources...)
		if want.Note != "" {
			d.Causes = append(d.Causes, Cause{Active, want.Note})
		}
		if want.Blocked != "" {
			d.Causes = append(d.Causes, Cause{Blocked, want.Blocked})
		}
	}
	if len(g.Chosen) == 0 {
		why := "tasks get no GPU"
		d.Resources = append(d.Resources, resource.Absent{Path: oci.DefaultConfig, Why: why},
			resource.Absent{Path: concourse.Launcher, Why: why}, resource.Absent{Path: cdi.Path, Why: why})
		return false, nil
	}
	spec, left, err := cdi.Resource(g.All, o.GPUs.KFD)
	if err != nil {
		return false, err
	}
	for _, l := range left {
		d.Causes = append(d.Causes, Cause{Blocked, "left out of " + cdi.Path + ": " + l})
	}
	config, err := json.MarshalIndent(oci.Config{Runtime: concourse.RealRunc, Containers: oci.Tasks,
		Specs: []string{cdi.Path}, Devices: cdiNames(g)}, "", "  ")
	if err != nil {
		return false, err
	}
	launcher, err := concourse.ContainerdLauncher()
	if err != nil {
		return false, err
	}
	d.Resources = append(d.Resources, spec,
		resource.File{Path: oci.DefaultConfig, Data: append(config, '\n'), Mode: 0o644}, launcher)
	return true, nil
}

// cdiNames are the chosen GPUs as the wrapper's config names them: by unique
// id, which stays with the GPU, else by index.
func cdiNames(g GPUs) (names []string) {
	for i, of := range g.All {
		for _, chosen := range g.Chosen {
			if of.Render.Path != chosen.Render.Path {
				continue
			}
			name := strconv.Itoa(i)
			if of.UniqueID != "" {
				name = "GPU-" + of.UniqueID
			}
			names = append(names, cdi.Kind+"="+name)
		}
	}
	return names
}

func aptProxies(o Observed) resource.Proxies {
	p := proxyOf(o.Facts, o.Config)
	return resource.Proxies{HTTP: p.HTTP, HTTPS: p.HTTPS, No: p.No}
}

// Pebble's places.
const (
	PebbleUnit   = "concourse-pebble.service"
	PebbleDir    = StateDir + "/pebble"
	PebbleSocket = PebbleDir + "/.pebble.socket"

	exporterService = "rocm-exporter"
	exporterURL     = "http://127.0.0.1:9401/-/healthy"
)

// desireExporter is Pebble with the exporter, on units that have AMD GPUs and
// were asked to use them.
func desireExporter(d *Desired, o Observed, g GPUs) error {
	layer, err := resource.PebbleLayer{Dir: PebbleDir + "/layers", Service: exporterService, Summary: "GPU metrics on port 9401",
		Command: []string{exporterBin, "--web.listen-address=:9401", "--path.root=/"}, User: "nobody", Group: "nogroup",
		Check: exporterService, URL: exporterURL}.File()
	if err != nil {
		return err
	}
	unit := "/etc/systemd/system/" + PebbleUnit
	state := o.Units[PebbleUnit]
	reload := []host.Command{resource.Systemctl("daemon-reload")}
	if g.Vendor != gpu.AMD || len(g.All) == 0 {
		why := "this unit has no AMD GPU to watch"
		d.Resources = append(d.Resources, resource.Service{Unit: PebbleUnit, State: state, Why: why},
			resource.Absent{Path: layer.Path, Why: why}, resource.Absent{Path: unit, Why: why})
		return nil
	}
	data, err := templates.Render(PebbleUnit, map[string]string{"Dir": PebbleDir, "Pebble": pebbleBin})
	if err != nil {
		return err
	}
	d.Exporter = true
	d.Resources = append(d.Resources, resource.Dir{Path: PebbleDir, Mode: 0o755}, layer, resource.File{Path: unit, Data: data, Mode: 0o644},
		resource.Trigger{Name: reloadPebble, Inputs: [][]byte{data}, Op: "reload systemd for " + PebbleUnit, Then: reload},
		resource.Service{Unit: PebbleUnit, State: state, Up: true},
		resource.Trigger{Name: restartPebble, Inputs: [][]byte{data, layer.Data, o.Programs},
			Op: "restart " + PebbleUnit, Adopt: starts(state),
			Then: []host.Command{resource.Systemctl("restart", PebbleUnit)}})
	return nil
}
