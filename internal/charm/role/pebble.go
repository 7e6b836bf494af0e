package role

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/templates"
)

// Paths and services of Pebble.
const (
	PebbleUnit     = "concourse-pebble.service"
	pebbleUnitFile = "/etc/systemd/system/" + PebbleUnit
	PebbleDir      = wellknown.StateDir + "/pebble"
	PebbleSocket   = PebbleDir + "/.pebble.socket"

	// Pebble requires a different number for each layer, or it does not start.
	ExporterLayer = PebbleDir + "/layers/001-rocm-exporter.yaml"
	JobsLayer     = PebbleDir + "/layers/002-concourse-exporter.yaml"

	ExporterService = "rocm-exporter"
	GPUService      = "gpu-reports"
	ExporterURL     = "http://127.0.0.1:9401/-/healthy"
	JobsService     = "concourse-exporter"
)

// GPUReport has the state of the GPUs, from their owner, which GPUService runs. The watcher
// reads it.
const GPUReport = wellknown.RunDir + "/gpus.json"

// UsageReport has the processes that use GPUs, for the exporter, which is not root. A
// process that can read the open files of other users (CAP_SYS_PTRACE) can also control
// their processes, and the exporter is open to the network.
const UsageReport = wellknown.RunDir + "/gpu-usage.json"

// NVIDIAReport has the output of nvidia-smi for the exporter. The exporter never starts
// nvidia-smi, because it takes seconds, or hangs with the GPU.
const NVIDIAReport = wellknown.RunDir + "/gpu-nvidia.json"

// PebbleService describes the exporter of a role.
type PebbleService struct {
	Layer    resource.PebbleLayer
	Missing  string // the reason why the unit does not run it, or ""
	Programs []byte // changes if its programs change
	Held     bool   // Pebble and its services stay as they are for now
}

// layers has the path of the layer of each service of both roles.
var layers = map[string]string{ExporterService: ExporterLayer, JobsService: JobsLayer}

// desirePebble runs the services of the unit's roles under Pebble. It removes the services
// that the unit does not have. Without a service it removes Pebble.
func desirePebble(o Observed, services []PebbleService) ([]plan.Resource, error) {
	var removed, written, all []plan.Resource
	var inputs [][]byte
	files, helpers, why := []string{pebbleUnitFile}, "", ""
	for _, s := range services {
		s.Layer.Path = layers[s.Layer.Service]
		layer, err := s.Layer.File()
		if err != nil {
			return nil, err
		}
		if s.Missing != "" {
			why = s.Missing
			removed = append(removed, resource.Absent{Path: layer.Path, Why: why})
			continue
		}
		helpers += strings.Join(s.Layer.HelperCommand, " ")
		written, files = append(written, layer), append(files, layer.Path)
		inputs = append(inputs, layer.Data, s.Programs)
	}
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		if !slices.ContainsFunc(services, func(s PebbleService) bool { return s.Layer.Service == name }) {
			all = append(all, resource.Absent{Path: layers[name], Why: "this unit's role has no " + name})
		}
	}
	for _, path := range []string{GPUReport, UsageReport, NVIDIAReport} {
		if !strings.Contains(helpers, path) {
			all = append(all, resource.Absent{Path: path, Why: "no service writes it on this unit"})
		}
	}
	state := o.Units[PebbleUnit]
	if len(written) == 0 {
		all = append(all, resource.Service{Unit: PebbleUnit, State: state, Why: why})
		return append(append(all, removed...), resource.Absent{Path: pebbleUnitFile, Why: why}), nil
	}
	data, err := templates.Render(PebbleUnit, map[string]any{"Dir": PebbleDir, "Pebble": PebbleBin,
		"Looks": strings.Contains(helpers, BinDir+"/dispatch")})
	if err != nil {
		return nil, err
	}
	all = append(append(all, removed...), resource.Dir{Path: PebbleDir, Mode: 0o700})
	return append(append(all, written...),
		resource.File{Path: pebbleUnitFile, Data: data, Mode: 0o644},
		resource.Trigger{Name: ReloadPebble, Inputs: [][]byte{data}, Files: []string{pebbleUnitFile},
			Op:   "reload systemd for " + PebbleUnit,
			Then: []host.Command{resource.Systemctl("daemon-reload")}},
		resource.Service{Unit: PebbleUnit, State: state, Up: true},
		resource.Trigger{Name: RestartPebble, Inputs: append([][]byte{data}, inputs...),
			Files: files, Unit: PebbleUnit, State: state,
			Op: "restart " + PebbleUnit, Adopt: Starts(state),
			Then: []host.Command{resource.Systemctl("restart", PebbleUnit)}}), nil
}

// AddPebble adds Pebble with the services of the unit's roles, unless a role is impossible or
// held. On a unit with both roles it is called once, for both.
func (d *Desired) AddPebble(o Observed) {
	held := func(s PebbleService) bool { return s.Held }
	if len(d.Pebble) == 0 || slices.ContainsFunc(d.Pebble, held) {
		return
	}
	rs, err := desirePebble(o, d.Pebble)
	if err != nil {
		rs = []plan.Resource{Impossible{Err: err}}
	}
	d.Resources = append(d.Resources, rs...)
}

// StopPebble stops Pebble and its services.
func StopPebble(o Observed, why string) []plan.Resource {
	return []plan.Resource{resource.Service{Unit: PebbleUnit, State: o.Units[PebbleUnit], Why: why}}
}

// RemovePebble removes the files of DesirePebble, except its folder, which is a part of the
// charm's state.
func RemovePebble(why string) []plan.Resource {
	return resource.AllAbsent(why, pebbleUnitFile, GPUReport, UsageReport, NVIDIAReport)
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

// FleetFile lists the workers for the page of concourse-exporter, without a secret.
const FleetFile = "/etc/concourse-ci-machine/fleet.json"

// JobsFolder has the files of concourse-exporter that survive a restart. Only its user may
// read them.
const JobsFolder = wellknown.StateDir + "/concourse-exporter"

// NoJobExporter removes the files of concourse-exporter.
func NoJobExporter(why string) []plan.Resource {
	return append(resource.AllAbsent(why, JobsCredentials, FleetFile),
		resource.Absent{Path: JobsFolder, Why: why, Tree: true})
}

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

// CharmFiles returns the programs that a unit of its roles runs.
func CharmFiles(o Observed) []plan.Resource {
	copy := func(path, name string) resource.Copy {
		return resource.Copy{Path: path, From: filepath.Join(o.CharmDir, "bin", name), Mode: 0o755}
	}
	files := []plan.Resource{resource.Dir{Path: wellknown.StateDir, Mode: 0o755}, copy(PebbleBin, "pebble")}
	if o.Facts.Role.Web() {
		files = append(files, copy(JobsBin, "concourse-exporter"))
	}
	if o.Facts.Role == model.WebRole {
		return files
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
