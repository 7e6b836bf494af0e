package worker

import (
	"maps"
	"path/filepath"
	"strconv"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/engines"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/wrapperfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// desireWrapper installs the wrapper in front of runc if tasks get GPUs or folders, and
// removes it otherwise. wrapped reports whether the worker must run containers through it.
func desireWrapper(o Observed, g GPUs, trusted []relation.Authority) (p part, wrapped bool) {
	config, err := wrapperConfig(o, g, trusted)
	if err != nil {
		p.cause(rankWrapper, status.Block("%s", err))
	}
	if len(config.GPUs) == 0 && config.Folders == nil && config.CACertificates == "" {
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
	config = oci.Config{Runtime: concourse.RealRunc, Containers: oci.Tasks, Volumes: concourse.WorkFolder(o.Shared())}
	if len(g.Chosen) > 0 {
		config.Env, config.Tools = map[string]string{}, role.ToolsDir
		err = vendors[g.Vendor].wrap(&config, o, g)
		maps.Copy(config.Env, o.Config.GPU.TaskEnv) // the option has precedence
		config.GPUs, config.Leases = taskGPUs(o, g), leaseConfig(o, g)
		t := g.Vendor.Traits()
		config.Specs, config.Visible = []string{t.Spec}, []string{t.Visible}
	}
	if len(g.Chosen) > 0 && g.Vendor.Has(gpu.Quarantine) && o.Config.GPU.Quarantine != quarantine.Off {
		config.Quarantine = quarantine.AdmissionFile
	}
	if len(g.Chosen) == 0 && g.Requested {
		config.Visible = []string{g.assumed().Traits().Visible}
		config.Missing = "this unit has none that tasks can use now; see why with: " +
			o.Facts.Commands().ShowStatus() + "; " + lease.RunAgain
	}
	if len(trusted) > 0 {
		config.CACertificates = role.SystemBundle
	}
	if len(enginesFor(o, g)) > 0 {
		config.Containers = oci.Requested
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

// taskGPUs returns the chosen GPUs in the wrapper's config. A lease and the quarantine name
// a GPU by its slot: its index or CDI name can change while a task computes on it. A process
// that opens the card's node computes as well. The tool of another vendor may describe a
// shared GPU by other nodes.
func taskGPUs(o Observed, g GPUs) (list []oci.GPU) {
	t := g.Vendor.Traits()
	hasNodes := g.Vendor.Has(gpu.OwnSpec) || o.Config.GPU.Sharing == config.Exclusive
	for i, one := range g.All {
		if !contains(g.Chosen, one) {
			continue
		}
		name := strconv.Itoa(i)
		if one.UniqueID != "" && t.ByID { // it stays with the GPU
			name = one.ID()
		}
		of := oci.GPU{Name: one.Address(), CDI: t.Kind + "=" + name, Clocks: clocksOf(o, one)}
		if hasNodes {
			of.Nodes = one.Nodes.Paths()
		}
		list = append(list, of)
	}
	return list
}

// toolNames lists the programs for tasks. They are static, so that they run in any image.
var toolNames = []string{"gpu-baseline"}

// desireTools returns the folder of programs for tasks of a unit with GPUs. It is not in the
// charm's folder, which an upgrade replaces while tasks run. The files in this folder are
// replaced one by one, so that a task has the programs of the running charm.
func desireTools(o Observed, g GPUs) (p part) {
	if len(g.Chosen) == 0 {
		p.add(resource.Absent{Path: role.ToolsDir, Why: "tasks get no GPU", Tree: true})
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
	if !g.Vendor.Has(gpu.Engines) || len(g.Chosen) == 0 {
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
