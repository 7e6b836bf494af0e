package role

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/templates"
)

// Paths and services of Pebble.
const (
	PebbleUnit     = "concourse-pebble.service"
	pebbleUnitFile = "/etc/systemd/system/" + PebbleUnit
	PebbleDir      = model.StateDir + "/pebble"
	PebbleSocket   = PebbleDir + "/.pebble.socket"

	ExporterService = "rocm-exporter"
	UsageService    = "gpu-usage"
	NVIDIAService   = "gpu-nvidia"
	ExporterURL     = "http://127.0.0.1:9401/-/healthy"
	JobsService     = "concourse-exporter"
)

// UsageReport has the processes that use GPUs, for the exporter, which is not root. A
// process that can read the open files of other users (CAP_SYS_PTRACE) can also control
// their processes, and the exporter is open to the network.
const UsageReport = "/run/concourse-gpu-usage.json"

// NVIDIAReport has the output of nvidia-smi for the exporter. The exporter never starts
// nvidia-smi, because it takes seconds, or hangs with the GPU.
const NVIDIAReport = "/run/concourse-gpu-nvidia.json"

// reports has these files with the services that write them.
var reports = []struct{ service, path string }{{UsageService, UsageReport}, {NVIDIAService, NVIDIAReport}}

// pebbleLayers is the folder of the services that Pebble runs.
const pebbleLayers = PebbleDir + "/layers"

// DesireNoPebble removes Pebble with the layer of one service, and of the service of the
// other role.
func DesireNoPebble(d *Desired, o Observed, why, other string, l resource.PebbleLayer) error {
	l.Dir = pebbleLayers
	layer, err := l.File()
	if err != nil {
		return err
	}
	d.Resources = slices.Concat(d.Resources, removeOther(other, ""), []plan.Resource{
		resource.Service{Unit: PebbleUnit, State: o.Units[PebbleUnit], Why: why},
		resource.Absent{Path: layer.Path, Why: why}, resource.Absent{Path: pebbleUnitFile, Why: why}})
	return nil
}

// removeOther removes the layer of the other role's service, and the reports that no helper
// writes.
func removeOther(other, helper string) []plan.Resource {
	all := []plan.Resource{resource.Absent{Path: pebbleLayers + "/001-" + other + ".yaml",
		Why: "this unit's role has no " + other}}
	for _, r := range reports {
		if helper != r.service {
			all = append(all, resource.Absent{Path: r.path, Why: "nobody writes it on this unit"})
		}
	}
	return all
}

// DesirePebble runs one service under Pebble, and removes the service of the other role.
func DesirePebble(d *Desired, o Observed, other string, l resource.PebbleLayer) error {
	l.Dir = pebbleLayers
	layer, err := l.File()
	if err != nil {
		return err
	}
	unit := pebbleUnitFile
	state := o.Units[PebbleUnit]
	d.Resources = append(d.Resources, removeOther(other, l.Helper)...)
	data, err := templates.Render(PebbleUnit, map[string]any{"Dir": PebbleDir, "Pebble": PebbleBin,
		"Looks": l.Helper == UsageService || l.Job != ""})
	if err != nil {
		return err
	}
	reload := []host.Command{resource.Systemctl("daemon-reload")}
	d.Resources = append(d.Resources, resource.Dir{Path: PebbleDir, Mode: 0o755}, layer,
		resource.File{Path: unit, Data: data, Mode: 0o644},
		resource.Trigger{Name: ReloadPebble, Inputs: [][]byte{data}, Files: []string{unit},
			Op: "reload systemd for " + PebbleUnit, Then: reload},
		resource.Service{Unit: PebbleUnit, State: state, Up: true},
		resource.Trigger{Name: RestartPebble, Inputs: [][]byte{data, layer.Data, o.Programs},
			Files: []string{unit, layer.Path}, Unit: PebbleUnit, State: state,
			Op: "restart " + PebbleUnit, Adopt: Starts(state),
			Then: []host.Command{resource.Systemctl("restart", PebbleUnit)}})
	return nil
}

// StopPebble stops Pebble and its services.
func StopPebble(o Observed, why string) []plan.Resource {
	return []plan.Resource{resource.Service{Unit: PebbleUnit, State: o.Units[PebbleUnit], Why: why}}
}

// RemovePebble removes the files of DesirePebble, except its folder, which is a part of the
// charm's state.
func RemovePebble(why string) []plan.Resource {
	return resource.AllAbsent(why, pebbleUnitFile, UsageReport, NVIDIAReport)
}

// JobsURL answers while concourse-exporter runs.
var JobsURL = "http://127.0.0.1:" + strconv.Itoa(wellknown.JobsPort) + "/-/healthy"

// Names of the triggers and of their stamps.
const (
	ReloadPebble  = "daemon-reload-pebble"
	RestartPebble = "restart-pebble"
)

// JobsCredentials has the login of concourse-exporter at the web, with a password.
const JobsCredentials = "/etc/concourse-ci-machine/concourse-exporter.json"

// Paths of the charm's installed programs. They are copies, because an upgrade of the charm
// replaces its folder while they run.
const (
	BinDir      = "/opt/concourse-ci-machine/bin"
	ExporterBin = BinDir + "/rocm-exporter"
	JobsBin     = BinDir + "/concourse-exporter"
	PebbleBin   = BinDir + "/pebble"
	// ToolsDir has programs for tasks, which find them at the same path.
	ToolsDir = "/opt/concourse-ci-machine/tools"
	// EnginesDir has the wrapper under the name that other engines call.
	EnginesDir = "/opt/concourse-ci-machine/engines"
)

// CharmFiles returns the programs that a unit of its role runs.
func CharmFiles(o Observed) []plan.Resource {
	copy := func(path, name string) resource.Copy {
		return resource.Copy{Path: path, From: filepath.Join(o.CharmDir, "bin", name), Mode: 0o755}
	}
	files := []plan.Resource{resource.Dir{Path: model.StateDir, Mode: 0o700}, copy(PebbleBin, "pebble")}
	if o.Facts.Role == model.WebRole {
		return append(files, copy(JobsBin, "concourse-exporter"))
	}
	return append(files, copy(ExporterBin, "rocm-exporter"), copy(concourse.Wrapper, "runc-amd-wrapper"))
}

// Programs identifies programs of the charm by size and time, without reading them.
func Programs(dir string, names ...string) (id []byte, err error) {
	for _, name := range names {
		st, err := os.Stat(filepath.Join(dir, "bin", name))
		if err != nil {
			return nil, err
		}
		id = fmt.Appendf(id, "%s %d %d\n", name, st.Size(), st.ModTime().UnixNano())
	}
	return id, nil
}
