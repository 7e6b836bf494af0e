package worker

import (
	"cmp"
	"encoding/json"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/gpu/cdi"
	"concourse-ci-machine/internal/gpu/nvidia"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/oci/engines"
	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/quarantine"
)

// desireGPUs adds AMD's toolkit, the CDI description of the unit's GPUs and the wrapper
// that gives the chosen GPUs to tasks. wrapped reports whether the worker must run
// containers through the wrapper.
func desireGPUs(d *Desired, o Observed, g GPUs) (wrapped bool, err error) {
	if g.Vendor == gpu.AMD && len(g.All) > 0 {
		d.AMDToolkit = true
		want := amd.Toolkit{Mode: o.Config.Toolkit, Version: o.Config.ToolkitVersion, BaseURL: o.Config.ROCmBaseURL,
			Series: o.Machine.Series, Arch: o.Arch, Proxies: role.ProxyOf(o.Facts, o.Config), Seen: o.Toolkit,
			Now: o.Now}.Want()
		d.Resources = append(d.Resources, want.Resources...)
		if want.Note != "" {
			d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: want.Note})
		}
		if want.Blocked != "" {
			d.Causes = append(d.Causes, status.Cause{Kind: status.Blocked, Text: want.Blocked})
		}
	}
	desireNVIDIA(d, o, g)
	d.Resources = append(d.Resources, removeOtherVendor(o, g)...)
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

// desireSpec adds the description of the unit's AMD GPUs.
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

// desireWrapper installs the wrapper in front of runc if tasks get GPUs or folders, and
// removes it otherwise.
func desireWrapper(d *Desired, o Observed, g GPUs) (wrapped bool, err error) {
	config := wrapperConfig(d, o, g)
	if len(config.Devices) == 0 && config.Folders == nil && config.CACertificates == "" {
		why := "tasks get neither GPUs nor folders"
		d.Resources = append(
			d.Resources, resource.Absent{Path: oci.DefaultConfig, Why: why},
			resource.Absent{Path: concourse.Launcher, Why: why},
		)
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
	if given := TaskFolders(o.Config, o.Folders); len(given) > 0 {
		d.Resources = append(d.Resources, resource.Nosuid{
			Dir: Srv, Why: "what tasks leave there must not run as another user of this machine",
		})
	}
	return true, nil
}

// wrapperConfig returns what the wrapper gives to tasks.
func wrapperConfig(d *Desired, o Observed, g GPUs) oci.Config {
	config := oci.Config{Runtime: concourse.RealRunc, Containers: oci.Tasks}
	if len(g.Chosen) > 0 {
		var err error
		if config.Env, err = taskEnv(o, g); err != nil {
			d.Causes = append(d.Causes, status.Cause{Kind: status.Blocked, Text: err.Error()})
		}
		config.Devices, config.Leases = cdiNames(g), leaseConfig(o, g)
		t := g.Vendor.Traits()
		config.Specs, config.Visible = []string{t.Spec}, []string{t.Visible}
		if g.Vendor == gpu.AMD {
			config.RootfsEnv = map[string]map[string]string{amd.Home: amd.TaskEnv()}
		}
	}
	if len(g.Chosen) > 0 && g.Vendor == gpu.AMD && o.Config.Quarantine != string(quarantine.Off) {
		config.Withheld = &oci.Withheld{File: quarantine.WithheldFile, GPUs: leasedGPUs(chosenInOrder(g))}
	}
	if len(g.Chosen) == 0 && g.Requested {
		config.Visible = []string{cmp.Or(g.Vendor, gpu.AMD).Traits().Visible}
		config.Missing = "this unit has none that tasks can use now, and juju status of " + o.Facts.Unit + " " +
			"says what is in the way; " + lease.RunAgain
	}
	config.Tools = toolsFor(o, g)
	if len(d.Trusted) > 0 {
		config.CACertificates = role.SystemBundle
	}
	if len(enginesFor(o, g)) > 0 {
		config.Containers = oci.Asked
	}
	if !o.Config.NoFolders {
		config.Folders = &oci.Folders{
			Root: Srv, Containers: o.Config.FoldersFor, Names: o.Config.Folders,
			Readonly: oci.Recursive,
		}
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
	// task-env may hold a secret, so only root can read the file. The wrapper accepts only
	// files of root.
	return resource.File{Path: oci.DefaultConfig, Data: append(data, '\n'), Mode: 0o600, Owner: "root"}, err
}

// taskEnv returns the environment of GPU tasks. The option task-env has precedence.
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
			err = nil // task-env has the value
		}
		version := o.Config.HSAOverride
		if version == "auto" {
			var overrideErr error
			version, overrideErr = amd.OverrideGFX(gfx)
			err = cmp.Or(overrideErr, err)
		}
		if version != "" {
			env["HSA_OVERRIDE_GFX_VERSION"] = version
		}
	}
	maps.Copy(env, o.Config.TaskEnv)
	return env, err
}

// cdiNames returns the names of the chosen GPUs in the wrapper's config: the unique id,
// which stays with the GPU, or the index.
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

// toolNames lists the programs for tasks. They are static, so that they run in any image.
var toolNames = []string{"gpu-baseline"}

// toolsFor returns the folder of programs for tasks of a unit with GPUs, or "". It is not
// in the charm's folder, which an upgrade replaces while tasks run. The files in this
// folder are replaced one by one, so that a task has the programs of the running charm.
func toolsFor(o Observed, g GPUs) string {
	if !o.Config.Tools || len(g.Chosen) == 0 {
		return ""
	}
	return role.ToolsDir
}

func desireTools(d *Desired, o Observed, g GPUs) {
	if toolsFor(o, g) == "" {
		d.Resources = append(d.Resources, resource.Absent{Path: role.ToolsDir, Why: "tasks get no tools", Tree: true})
		return
	}
	d.Resources = append(d.Resources, resource.Dir{Path: role.ToolsDir, Mode: 0o755})
	for _, name := range toolNames {
		d.Resources = append(d.Resources, resource.Copy{
			Path: filepath.Join(role.ToolsDir, name), From: filepath.Join(o.CharmDir, "bin", name),
			Mode: 0o755,
		})
	}
}

// enginesWrapper is outside the charm's folder, because engines store its path.
const enginesWrapper = role.EnginesDir + "/runc-amd-wrapper"

// enginesFor returns the engines, other than Concourse's, that get the unit's GPUs.
func enginesFor(o Observed, g GPUs) []string {
	if g.Vendor != gpu.AMD || len(g.Chosen) == 0 {
		return nil
	}
	return o.Config.Engines
}

func desireEngines(d *Desired, o Observed, g GPUs) {
	names := enginesFor(o, g)
	if len(names) == 0 {
		d.Resources = append(d.Resources, removeEngines("container-engines gives no other engine a GPU")...)
		return
	}
	d.Resources = append(d.Resources, resource.Dir{Path: role.EnginesDir, Mode: 0o755},
		resource.Copy{
			Path: enginesWrapper, From: filepath.Join(o.CharmDir, "bin", filepath.Base(enginesWrapper)),
			Mode: 0o755,
		},
		engines.Unit{Engines: names, Wrapper: enginesWrapper})
}

func removeEngines(why string) []plan.Resource {
	return []plan.Resource{engines.Unit{Wrapper: enginesWrapper}, resource.Absent{
		Path: role.EnginesDir, Why: why, Tree: true,
	}}
}

// desireNVIDIA adds NVIDIA's toolkit and its description of the unit's GPUs, unless another
// program made a description.
func desireNVIDIA(d *Desired, o Observed, g GPUs) {
	if g.Vendor != gpu.NVIDIA || len(g.All) == 0 {
		return
	}
	want := NVIDIAToolkit(o, g).Want()
	d.Resources = append(d.Resources, want.Resources...)
	d.NVIDIAToolkit = true
	if want.Note != "" {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: want.Note})
	}
	d.GeneratesSpec = want.Describes && len(g.Chosen) == 0
}

// NVIDIAToolkit returns the input for the decision on NVIDIA's toolkit.
func NVIDIAToolkit(o Observed, g GPUs) nvidia.Toolkit {
	t := nvidia.Toolkit{
		Version: o.Config.NVIDIAToolkitVersion, Arch: o.Arch, Proxies: role.ProxyOf(o.Facts, o.Config),
		GPUs: g.All, Seen: o.NVIDIAToolkit, Now: o.Now,
	}
	if o.Machine.LXD() {
		t.Container = o.Machine.Hostname
	}
	return t
}
