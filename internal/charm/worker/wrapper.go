package worker

import (
	"cmp"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/gpu/cdi"
	"concourse-ci-machine/internal/gpu/nvidia"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/oci/engines"
	"concourse-ci-machine/internal/oci/wrapperfile"
	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/quarantine"
)

// wantsToolkit reports whether the unit needs the container toolkit of a vendor.
func wantsToolkit(g GPUs, v gpu.Vendor) bool { return g.Vendor == v && len(g.All) > 0 }

// desireAMDToolkit returns AMD's toolkit, or why this base has none.
func desireAMDToolkit(o Observed, g GPUs) (p part, missing string) {
	if !wantsToolkit(g, gpu.AMD) {
		return p, ""
	}
	c := o.Config.Driver
	want := amd.Toolkit{
		Mode: c.AMDContainerToolkit, Version: c.AMDContainerToolkitVersion, BaseURL: c.ROCmBaseURL,
		Series: o.Machine.Series, Arch: o.Arch, Proxies: role.ProxyOf(o.Facts, o.Config), Seen: o.Toolkit,
		Now: o.Now}.Want()
	p.add(want.Resources...)
	p.cause(rankToolkit, status.Active, want.Note)
	p.cause(rankToolkit, status.Blocked, want.Blocked)
	return p, want.Missing
}

// desireNVIDIAToolkit returns NVIDIA's toolkit and its description of the unit's GPUs,
// unless another program made a description.
func desireNVIDIAToolkit(o Observed, g GPUs) (p part) {
	if !wantsToolkit(g, gpu.NVIDIA) {
		return p
	}
	want := NVIDIAToolkit(o, g).Want()
	p.add(want.Resources...)
	p.cause(rankToolkit, status.Active, want.Note)
	return p
}

// generatesSpec reports whether applying can give additional NVIDIA GPUs to tasks.
func generatesSpec(o Observed, g GPUs) bool {
	return wantsToolkit(g, gpu.NVIDIA) && len(g.Chosen) == 0 && NVIDIAToolkit(o, g).Want().Describes
}

// desireSpec returns the description of the unit's AMD GPUs.
func desireSpec(o Observed, g GPUs) (p part) {
	if g.Vendor != gpu.AMD || len(g.Chosen) == 0 {
		p.add(cdi.Gone{Why: "tasks get no AMD GPU"})
		return p
	}
	spec, left, err := cdi.Resource(g.All, o.GPUs.KFD)
	if err != nil {
		return part{err: err}
	}
	for _, l := range left {
		p.block(rankSpec, "left out of %s: %s", cdi.Path, l)
	}
	p.add(cdi.Keep{}, spec)
	return p
}

// desireWrapper installs the wrapper in front of runc if tasks get GPUs or folders, and
// removes it otherwise. wrapped reports whether the worker must run containers through it.
func desireWrapper(o Observed, g GPUs, trusted []relation.Authority) (p part, wrapped bool) {
	config, err := wrapperConfig(o, g, trusted)
	if err != nil {
		p.block(rankWrapper, "%s", err)
	}
	if len(config.Devices) == 0 && config.Folders == nil && config.CACertificates == "" {
		why := "tasks get neither GPUs nor folders"
		p.add(resource.Absent{Path: oci.DefaultConfig, Why: why}, resource.Absent{Path: concourse.Launcher, Why: why})
		return p, false
	}
	file, err := wrapperFile(config)
	if err != nil {
		p.err = err
		return p, false
	}
	launcher, err := concourse.ContainerdLauncher()
	if err != nil {
		p.err = err
		return p, false
	}
	p.add(file, launcher)
	if given := TaskFolders(o.Config, o.Folders); len(given) > 0 {
		p.add(resource.Nosuid{Dir: Srv, Why: "what tasks leave there must not run as another user of this machine"})
	}
	return p, true
}

// wrapperConfig returns what the wrapper gives to tasks. With an error the config is valid,
// and lacks a part of the tasks' environment.
func wrapperConfig(o Observed, g GPUs, trusted []relation.Authority) (config oci.Config, err error) {
	config = oci.Config{Runtime: concourse.RealRunc, Containers: oci.Tasks}
	if len(g.Chosen) > 0 {
		config.Env, err = taskEnv(o, g)
		config.Devices, config.Leases = cdiNames(g), leaseConfig(o, g)
		t := g.Vendor.Traits()
		config.Specs, config.Visible = []string{t.Spec}, []string{t.Visible}
		if g.Vendor == gpu.AMD {
			config.RootfsEnv = map[string]map[string]string{amd.Home: amd.TaskEnv()}
		}
	}
	if len(g.Chosen) > 0 && g.Vendor == gpu.AMD && o.Config.GPU.Quarantine != quarantine.Off {
		config.Quarantine = &oci.Quarantine{File: quarantine.AdmissionFile, GPUs: leasedGPUs(chosenInOrder(g))}
	}
	if len(g.Chosen) == 0 && g.Requested {
		config.Visible = []string{cmp.Or(g.Vendor, gpu.AMD).Traits().Visible}
		config.Missing = "this unit has none that tasks can use now, and juju status of " + o.Facts.Unit + " " +
			"says what is in the way; " + lease.RunAgain
	}
	config.Tools = toolsFor(o, g)
	if len(trusted) > 0 {
		config.CACertificates = role.SystemBundle
	}
	if len(enginesFor(o, g)) > 0 {
		config.Containers = oci.Asked
	}
	if !o.Config.Worker.NoSrvFolders {
		config.Folders = &oci.Folders{
			Root: Srv, Containers: o.Config.Worker.SrvFoldersContainers, Names: o.Config.Worker.SrvFolders,
			Readonly: oci.Recursive,
		}
		if !o.Machine.RecursiveReadonly {
			config.Folders.Readonly = oci.TopOnly
		}
	}
	return config, err
}

func wrapperFile(config oci.Config) (f resource.File, err error) {
	data, err := wrapperfile.File.Encode(config)
	if err == nil {
		err = oci.CheckConfig(data)
	}
	// The wrapper accepts only files of root.
	return resource.File{Path: wrapperfile.File.Path, Data: data, Mode: wrapperfile.File.Mode, Owner: "root"}, err
}

// taskEnv returns the environment of GPU tasks. The option task-env has precedence.
func taskEnv(o Observed, g GPUs) (map[string]string, error) {
	env := map[string]string{}
	var err error
	if g.Vendor == gpu.AMD {
		var gfx []string
		for _, one := range g.Chosen {
			gfx = append(gfx, one.GFX)
		}
		var archs []string
		if archs, err = amd.HIPArches(gfx, o.Config.GPU.HIPArches); len(archs) > 0 {
			env["HIP_ARCHES"] = strings.Join(archs, ",")
		} else if o.Config.GPU.TaskEnv["HIP_ARCHES"] != "" {
			err = nil // task-env has the value
		}
		version := o.Config.GPU.HSAOverrideGFXVersion
		if version == "auto" {
			var overrideErr error
			version, overrideErr = amd.OverrideGFX(gfx)
			err = cmp.Or(overrideErr, err)
		}
		if version != "" {
			env["HSA_OVERRIDE_GFX_VERSION"] = version
		}
	}
	maps.Copy(env, o.Config.GPU.TaskEnv)
	return env, err
}

// cdiNames returns the names of the chosen GPUs in the wrapper's config: the unique id,
// which stays with the GPU, or the index.
func cdiNames(g GPUs) (names []string) {
	t := g.Vendor.Traits()
	for i, one := range g.All {
		if !contains(g.Chosen, one) {
			continue
		}
		name := strconv.Itoa(i)
		if one.UniqueID != "" && t.ByID {
			name = "GPU-" + one.UniqueID
		}
		names = append(names, t.Kind+"="+name)
	}
	return names
}

// toolNames lists the programs for tasks. They are static, so that they run in any image.
var toolNames = []string{"gpu-baseline"}

// toolsFor returns the folder of programs for tasks of a unit with GPUs, or "". It is not
// in the charm's folder, which an upgrade replaces while tasks run. The files in this
// folder are replaced one by one, so that a task has the programs of the running charm.
func toolsFor(o Observed, g GPUs) string {
	if !o.Config.GPU.Tools || len(g.Chosen) == 0 {
		return ""
	}
	return role.ToolsDir
}

func desireTools(o Observed, g GPUs) (p part) {
	if toolsFor(o, g) == "" {
		p.add(resource.Absent{Path: role.ToolsDir, Why: "tasks get no tools", Tree: true})
		return p
	}
	p.add(resource.Dir{Path: role.ToolsDir, Mode: 0o755})
	for _, name := range toolNames {
		from := filepath.Join(o.CharmDir, "bin", name)
		p.add(resource.Copy{Path: filepath.Join(role.ToolsDir, name), From: from, Mode: 0o755})
	}
	return p
}

// enginesWrapper is outside the charm's folder, because engines store its path.
const enginesWrapper = role.EnginesDir + "/runc-amd-wrapper"

// enginesFor returns the engines, other than Concourse's, that get the unit's GPUs.
func enginesFor(o Observed, g GPUs) []string {
	if g.Vendor != gpu.AMD || len(g.Chosen) == 0 {
		return nil
	}
	return o.Config.GPU.ContainerEngines
}

func desireEngines(o Observed, g GPUs) (p part) {
	names := enginesFor(o, g)
	if len(names) == 0 {
		p.add(removeEngines("container-engines gives no other engine a GPU")...)
		return p
	}
	from := filepath.Join(o.CharmDir, "bin", filepath.Base(enginesWrapper))
	p.add(resource.Dir{Path: role.EnginesDir, Mode: 0o755},
		resource.Copy{Path: enginesWrapper, From: from, Mode: 0o755},
		engines.Unit{Engines: names, Wrapper: enginesWrapper})
	return p
}

func removeEngines(why string) []plan.Resource {
	return []plan.Resource{engines.Unit{Wrapper: enginesWrapper}, resource.Absent{
		Path: role.EnginesDir, Why: why, Tree: true,
	}}
}

// NVIDIAToolkit returns the input for the decision on NVIDIA's toolkit.
func NVIDIAToolkit(o Observed, g GPUs) nvidia.Toolkit {
	t := nvidia.Toolkit{
		Version: o.Config.Driver.NVIDIAContainerToolkitVersion, Arch: o.Arch, Proxies: role.ProxyOf(o.Facts, o.Config),
		GPUs: g.All, Seen: o.NVIDIAToolkit, Now: o.Now,
	}
	if o.Machine.LXD() {
		t.Container = o.Machine.Hostname
	}
	return t
}
