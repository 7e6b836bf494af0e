package charm

import (
	"strconv"
	"strings"

	"concourse-ci-machine/internal/agreed"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/jobexporter"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/templates"
)

// Pebble's places.
const (
	PebbleUnit   = "concourse-pebble.service"
	PebbleDir    = StateDir + "/pebble"
	PebbleSocket = PebbleDir + "/.pebble.socket"

	exporterService = "rocm-exporter"
	usageService    = "gpu-usage"
	exporterURL     = "http://127.0.0.1:9401/-/healthy"
	jobsService     = "concourse-exporter"
)

// UsageReport is where the exporter, which is not root, finds who uses the GPUs:
// whoever may see what another user's process has open (CAP_SYS_PTRACE) can take
// that process over, and the exporter serves the network.
const UsageReport = "/run/concourse-gpu-usage.json"

// jobsCredentials is how concourse-exporter asks the web; it holds a password.
const jobsCredentials = "/etc/concourse-ci-machine/concourse-exporter.json"

var jobsURL = "http://127.0.0.1:" + strconv.Itoa(agreed.JobsPort) + "/-/healthy"

// desireExporter is Pebble with the GPU exporter, on units that have AMD GPUs
// and were asked to use them.
func desireExporter(d *Desired, o Observed, g GPUs) error {
	command := []string{exporterBin, "--web.listen-address=:9401", "--path.root=/", "--usage.report=" + UsageReport}
	if o.Config.DCGMAliases {
		command = append(command, "--dcgm-aliases")
	}
	var report []string
	job := ""
	if leases(o, g) != nil {
		job, report = "gpu-leases", []string{dispatchBin, "gpu", "leases"}
		command = append(command, "--leases.report="+LeaseReport)
	}
	d.Exporter = g.Vendor == gpu.AMD && len(g.All) > 0
	d.Resources = append(d.Resources, resource.Absent{Path: jobsCredentials, Why: "this unit is a worker"})
	return desirePebble(d, o, "this unit has no AMD GPU to watch", d.Exporter, jobsService, resource.PebbleLayer{
		Service: exporterService, Summary: "GPU metrics on port 9401", Command: command, User: "nobody", Group: "nogroup",
		Check: exporterService, URL: exporterURL, Job: job, JobCommand: report,
		Helper: usageService, HelperCommand: []string{exporterBin, "--usage.write=" + UsageReport, "--path.root=/"}})
}

// desireJobExporter is Pebble with the exporter of Concourse's jobs, on a web
// with enable-metrics. It knows the web's own address, port and user (D57), and
// runs as the user that the file with the password belongs to (D39).
func desireJobExporter(d *Desired, o Observed) error {
	why := "enable-metrics is off"
	if o.Config.Metrics {
		why = "there is no web to ask"
	}
	if d.Jobs = o.Config.Metrics && d.Web; d.Jobs {
		c := jobexporter.Credentials{URL: d.LocalURL, Username: o.Config.AdminUser, Password: d.Secret[adminPassword]}
		data, err := c.Marshal()
		if err != nil {
			return err
		}
		d.Resources = append(d.Resources, resource.Dir{Path: "/etc/concourse-ci-machine", Mode: 0o755},
			resource.File{Path: jobsCredentials, Data: data, Mode: 0o600, Owner: concourse.WebUser})
	} else {
		d.Resources = append(d.Resources, resource.Absent{Path: jobsCredentials, Why: why})
	}
	command := []string{jobsBin, "--credentials-file=" + jobsCredentials}
	if len(o.Config.RequiredArchs) > 0 {
		command = append(command, "--required-archs="+strings.Join(o.Config.RequiredArchs, ","))
	}
	return desirePebble(d, o, why, d.Jobs, exporterService, resource.PebbleLayer{
		Service: jobsService, Summary: "metrics of Concourse's jobs on port " + strconv.Itoa(agreed.JobsPort),
		Command: command, User: concourse.WebUser, Group: concourse.WebUser,
		Check: jobsService, URL: jobsURL})
}

// desirePebble is Pebble with one service, or without any no Pebble. other is
// the service that a unit of the other role has.
func desirePebble(d *Desired, o Observed, why string, on bool, other string, l resource.PebbleLayer) error {
	l.Dir = PebbleDir + "/layers"
	layer, err := l.File()
	if err != nil {
		return err
	}
	unit := "/etc/systemd/system/" + PebbleUnit
	state := o.Units[PebbleUnit]
	d.Resources = append(d.Resources, resource.Absent{Path: l.Dir + "/001-" + other + ".yaml", Why: "this unit's role has no " + other})
	if l.Helper == "" || !on {
		d.Resources = append(d.Resources, resource.Absent{Path: UsageReport, Why: "nobody writes it on this unit"})
	}
	if !on {
		d.Resources = append(d.Resources, resource.Service{Unit: PebbleUnit, State: state, Why: why},
			resource.Absent{Path: layer.Path, Why: why}, resource.Absent{Path: unit, Why: why})
		return nil
	}
	data, err := templates.Render(PebbleUnit, map[string]any{"Dir": PebbleDir, "Pebble": pebbleBin, "Looks": l.Helper != "" || l.Job != ""})
	if err != nil {
		return err
	}
	reload := []host.Command{resource.Systemctl("daemon-reload")}
	d.Resources = append(d.Resources, resource.Dir{Path: PebbleDir, Mode: 0o755}, layer, resource.File{Path: unit, Data: data, Mode: 0o644},
		resource.Trigger{Name: reloadPebble, Inputs: [][]byte{data}, Files: []string{unit}, Op: "reload systemd for " + PebbleUnit, Then: reload},
		resource.Service{Unit: PebbleUnit, State: state, Up: true},
		resource.Trigger{Name: restartPebble, Inputs: [][]byte{data, layer.Data, o.Programs}, Files: []string{unit, layer.Path}, Unit: PebbleUnit, State: state,
			Op: "restart " + PebbleUnit, Adopt: starts(state),
			Then: []host.Command{resource.Systemctl("restart", PebbleUnit)}})
	return nil
}
