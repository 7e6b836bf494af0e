package worker

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/templates"
)

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
		"Days": o.Config.Worker.TaskRecordDays, "Volumes": concourse.WorkFolder(o.Shared()),
		"Report": verdict.ReportPath, "Usage": usage, "CO2": o.Config.CO2GramsPerKWh,
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
