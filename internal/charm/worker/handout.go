package worker

import (
	"cmp"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/gpu/cdi"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/quarantine"
)

// desireGPUs is AMD's toolkit, the CDI description of the unit's GPUs and the
// wrapper that hands the chosen ones to tasks. wired says that the worker has
// to run its containers through the wrapper.
func desireGPUs(d *Desired, o Observed, g GPUs) (wired bool, err error) {
	if g.Vendor == gpu.AMD && len(g.All) > 0 {
		d.Toolkit = true
		want := amd.Toolkit{Mode: o.Config.AMDContainerToolkit, Version: o.Config.AMDContainerToolkitVersion, BaseURL: o.Config.ROCmBaseURL,
			Series: o.Machine.Series, Arch: o.Arch, Proxies: role.ProxyOf(o.Facts, o.Config), Seen: o.Toolkit, Now: o.Now}.Want()
		d.Resources, d.NoToolkit = append(d.Resources, want.Resources...), want.Missing
		if want.Note != "" {
			d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: want.Note})
		}
		if want.Blocked != "" {
			d.Causes = append(d.Causes, status.Cause{Kind: status.Blocked, Text: want.Blocked})
		}
	}
	desireNVIDIA(d, o, g)
	d.Resources = append(d.Resources, takeBack(o, g)...)
	if err := desireSpec(d, o, g); err != nil {
		return false, err
	}
	if err := desireRefresh(d, o, g); err != nil {
		return false, err
	}
	desireLeases(d, o, g)
	desireTools(d, o, g)
	desireEngines(d, o, g)
	if err := desireKubernetes(d, o, g); err != nil {
		return false, err
	}
	return desireWrapper(d, o, g)
}

// desireSpec is the description of the unit's AMD GPUs.
func desireSpec(d *Desired, o Observed, g GPUs) error {
	if g.Vendor != gpu.AMD || len(g.Chosen) == 0 {
		d.Resources = append(d.Resources, cdi.Gone{Why: "tasks get no AMD GPU"})
		return nil
	}
	spec, left, err := cdi.Resource(g.All, o.GPUs.KFD)
	if err != nil {
		return err
	}
	for _, l := range left {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Blocked, Text: "left out of " + cdi.Path + ": " + l})
	}
	d.Resources = append(d.Resources, cdi.Keep{}, spec)
	return nil
}

// desireWrapper puts the wrapper in front of runc where tasks get GPUs or
// folders, and takes it away where they get neither.
func desireWrapper(d *Desired, o Observed, g GPUs) (wired bool, err error) {
	config := wrapperConfig(d, o, g)
	if len(config.Devices) == 0 && config.Folders == nil && config.CACertificates == "" {
		why := "tasks get neither GPUs nor folders"
		d.Resources = append(d.Resources, resource.Absent{Path: oci.DefaultConfig, Why: why}, resource.Absent{Path: concourse.Launcher, Why: why})
		return false, nil
	}
	file, err := wrapperFile(config)
	if err != nil {
		return false, err
	}
	launcher, err := concourse.ContainerdLauncher()
	if err != nil {
		return false, err
	}
	d.Resources = append(d.Resources, file, launcher)
	if given := FoldersOfTasks(o.Config, o.Folders); len(given) > 0 {
		d.Resources = append(d.Resources, resource.Nosuid{Dir: Srv, Why: "what tasks leave there must not run as another user of this machine"})
	}
	return true, nil
}

// wrapperConfig says what the wrapper hands to tasks.
func wrapperConfig(d *Desired, o Observed, g GPUs) oci.Config {
	config := oci.Config{Runtime: concourse.RealRunc, Containers: oci.Tasks}
	if len(g.Chosen) > 0 {
		var err error
		if config.Env, err = taskEnv(o, g); err != nil {
			d.Causes = append(d.Causes, status.Cause{Kind: status.Blocked, Text: err.Error()})
		}
		config.Devices, config.Leases = cdiNames(g), leases(o, g)
		t := g.Vendor.Traits()
		config.Specs, config.Visible = []string{t.Spec}, []string{t.Visible}
		if g.Vendor == gpu.AMD {
			config.RootfsEnv = map[string]map[string]string{amd.Home: amd.TaskEnv()}
		}
	}
	if len(g.Chosen) > 0 && g.Vendor == gpu.AMD && o.Config.GPUQuarantine != string(quarantine.Off) {
		config.Quarantine = &oci.Quarantine{File: quarantine.AdmissionFile, GPUs: leasedGPUs(chosenInOrder(g))}
	}
	if len(g.Chosen) == 0 && g.Asked {
		config.Visible = []string{cmp.Or(g.Vendor, gpu.AMD).Traits().Visible}
		config.Missing = "this unit has none that tasks can use now, and juju status of " + o.Facts.Unit + " says what is in the way; " + lease.RunAgain
	}
	config.Tools = toolsFor(o, g)
	if len(d.Trusted) > 0 {
		config.CACertificates = role.SystemBundle
	}
	if len(enginesFor(o, g)) > 0 {
		config.Containers = oci.Asked
	}
	if !o.Config.NoSrvFolders {
		config.Folders = &oci.Folders{Root: Srv, Containers: o.Config.SrvFoldersContainers, Names: o.Config.SrvFolders, Readonly: oci.Recursive}
		if !o.Machine.RecursiveReadonly {
			config.Folders.Readonly = oci.TopOnly
		}
	}
	return config
}

func wrapperFile(config oci.Config) (f resource.File, err error) {
	data, err := json.Marshal(config)
	if err == nil {
		err = oci.CheckConfig(data)
	}
	// task-env may hold a secret, so only root reads it; the wrapper takes root's alone.
	return resource.File{Path: oci.DefaultConfig, Data: append(data, '\n'), Mode: 0o600, Owner: "root"}, err
}

// taskEnv is the environment of GPU tasks. What the operator sets wins.
func taskEnv(o Observed, g GPUs) (map[string]string, error) {
	env := map[string]string{}
	var err error
	if g.Vendor == gpu.AMD {
		var gfx []string
		for _, of := range g.Chosen {
			gfx = append(gfx, of.GFX)
		}
		var archs []string
		if archs, err = amd.HIPArches(gfx, o.Config.HIPArches); len(archs) > 0 {
			env["HIP_ARCHES"] = strings.Join(archs, ",")
		} else if o.Config.TaskEnv["HIP_ARCHES"] != "" {
			err = nil // the operator says it there
		}
		version := o.Config.HSAOverrideGFXVersion
		if version == "auto" {
			var wrong error
			version, wrong = amd.OverrideGFX(gfx)
			err = cmp.Or(wrong, err)
		}
		if version != "" {
			env["HSA_OVERRIDE_GFX_VERSION"] = version
		}
	}
	maps.Copy(env, o.Config.TaskEnv)
	return env, err
}

// cdiNames are the chosen GPUs as the wrapper's config names them: by unique
// id, which stays with the GPU, else by index.
func cdiNames(g GPUs) (names []string) {
	t := g.Vendor.Traits()
	for i, of := range g.All {
		if !contains(g.Chosen, of) {
			continue
		}
		name := strconv.Itoa(i)
		if of.UniqueID != "" && t.ByID {
			name = "GPU-" + of.UniqueID
		}
		names = append(names, t.Kind+"="+name)
	}
	return names
}
