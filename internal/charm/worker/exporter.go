package worker

import (
	"cmp"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/templates"
)

// exports reports whether the unit runs the exporter, for its GPUs or for the verdicts on tasks.
// A recorder runs on if the worker loses its web.
func exports(o Observed, g GPUs) bool {
	return len(g.All) > 0 || o.Config.Worker.TaskRecordSize > 0 && (registers(o) || o.Units[RecorderUnit].Running())
}

// gpuExporter returns the exporter. Without GPUs it serves the verdicts on tasks and the disk,
// and no program of root runs for it.
func gpuExporter(o Observed, g GPUs) role.PebbleService {
	layer := resource.PebbleLayer{
		Service: role.ExporterService, Summary: "metrics of GPUs and tasks on port 9401", User: "nobody",
		Group: "nogroup",
		Check: role.ExporterService, URL: role.ExporterURL,
		Command: []string{
			role.ExporterBin, "serve", "--web.listen-address=:9401", "--path.root=/", "--unit=" + o.Facts.Unit,
			"--explain=" + o.Facts.Commands().RunAction("explain-error code="),
			"--disk.folder=" + concourse.WorkFolder(o.Shared()), "--vendor=" + cmp.Or(string(g.Vendor), "none"),
		}}
	if len(g.All) > 0 {
		vendors[g.assumed()].watch(&layer, o, g)
	} else {
		layer.Command = append(layer.Command, "--collect.usage=false")
	}
	if o.Config.GPU.Metrics.DCGMAliases {
		layer.Command = append(layer.Command, "--dcgm-aliases")
	}
	for _, link := range []struct{ flag, url string }{{"--link.fleet", role.FleetPage(o.Facts, o.Config.Web)},
		{"--web.external-url", role.StatusPage(o.Facts)}} {
		if link.url != "" {
			layer.Command = append(layer.Command, link.flag+"="+link.url)
		}
	}
	if leases(o, g) {
		layer.Command = append(layer.Command, "--leases.report="+pool.ReportFile)
	}
	if o.Config.Worker.TaskRecordSize > 0 {
		layer.Command = append(layer.Command, "--tasks.report="+verdict.ReportPath)
	}
	missing := ""
	if !exports(o, g) {
		missing = "this unit has no GPU to watch, and records no tasks"
	}
	return role.PebbleService{Layer: layer, Missing: missing, Programs: o.Programs}
}

// The service that records the tasks of a worker. It does not run under Pebble, which
// workers without a GPU do not have, and it needs the right to read the kernel's log.
const (
	RecorderUnit = "concourse-task-recorder.service"

	recorderFile    = unitDir + RecorderUnit
	ReloadRecorder  = "daemon-reload-task-recorder"
	RestartRecorder = "restart-task-recorder"
)

// desireRecorder returns the recorder of a worker with a web, unless task-record-size=0.
func desireRecorder(o Observed) (p part) {
	state := o.Units[RecorderUnit]
	if o.Config.Worker.TaskRecordSize == 0 {
		p.add(removeRecorder(state, "task-record-size=0")...)
		return p
	}
	if !registers(o) {
		return p // tasks may still run
	}
	usage := ""
	if o.Config.GPU.Metrics.Usage {
		usage = role.UsageReport
	}
	unit, err := templates.Render(RecorderUnit, map[string]any{
		"Exporter": role.ExporterBin, "Dir": taskrecord.DefaultDir, "Size": o.Config.Worker.TaskRecordSize,
		"Volumes": concourse.WorkFolder(o.Shared()),
		"Report":  verdict.ReportPath, "Usage": usage,
	})
	if err != nil {
		return part{err: err}
	}
	p.add(resource.File{Path: recorderFile, Data: unit, Mode: 0o644},
		resource.Trigger{
			Name: ReloadRecorder, Inputs: [][]byte{unit}, Files: []string{recorderFile},
			Op:   "reload systemd for " + RecorderUnit,
			Then: []host.Command{resource.Systemctl("daemon-reload")}},
		resource.Service{Unit: RecorderUnit, State: state, Up: true},
		resource.Trigger{
			Name: RestartRecorder, Inputs: [][]byte{unit, o.Programs}, Files: []string{recorderFile},
			Unit: RecorderUnit, State: state, Op: "restart " + RecorderUnit, Adopt: role.Starts(state),
			Then: []host.Command{resource.Systemctl("restart", RecorderUnit)}})
	return p
}

// removeRecorder removes the recorder with its records.
func removeRecorder(state resource.UnitState, why string) []plan.Resource {
	return append([]plan.Resource{resource.Service{Unit: RecorderUnit, State: state, Why: why}},
		recorderFiles(why)...)
}

func recorderFiles(why string) []plan.Resource {
	return append(resource.AllAbsent(why, recorderFile, verdict.ReportPath),
		resource.Absent{Path: taskrecord.DefaultDir, Why: why, Tree: true})
}
