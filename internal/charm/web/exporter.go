package web

import (
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
)

// desireJobExporter runs the exporter of Concourse's jobs under Pebble, on a web with
// enable-metrics. The exporter uses the web's own address, port and user (D57). It runs as
// the owner of the file with the password (D39).
func desireJobExporter(d *Desired, o Observed) error {
	why := ""
	switch {
	case !o.Config.Web.EnableMetrics:
		why = "enable-metrics is off"
	case !d.Up:
		why = "no web runs here"
	}
	if d.Jobs = why == ""; d.Jobs {
		c := login.Credentials{URL: d.LocalURL, Username: o.Config.Web.InitialAdminUsername,
			Password: d.Secret[model.AdminPassword]}
		data, err := c.Marshal()
		if err != nil {
			return err
		}
		d.Resources = append(d.Resources, resource.Dir{Path: "/etc/concourse-ci-machine", Mode: 0o755},
			resource.File{Path: role.JobsCredentials, Data: data, Mode: 0o600, Owner: concourse.WebUser},
			resource.Dir{Path: role.JobsFolder, Mode: 0o700, Owner: concourse.WebUser})
	} else {
		d.Resources = append(d.Resources, resource.Absent{Path: role.JobsCredentials, Why: why},
			resource.Absent{Path: role.JobsFolder, Why: why, Tree: true})
	}
	if err := desireFleetFile(d, o, why); err != nil {
		return err
	}
	command := []string{role.JobsBin, "--credentials-file=" + role.JobsCredentials,
		"--state.folder=" + role.JobsFolder}
	if len(o.Config.Web.RequiredArchs) > 0 {
		command = append(command, "--required-archs="+strings.Join(o.Config.Web.RequiredArchs, ","))
	}
	if o.Config.Web.FleetPage != config.FleetOff {
		command = append(command, "--fleet.file="+role.FleetFile)
	}
	d.Pebble = append(d.Pebble, role.PebbleService{Missing: why, Programs: o.Programs, Layer: resource.PebbleLayer{
		Service: role.JobsService, Summary: "metrics of Concourse's jobs on port " + strconv.Itoa(wellknown.JobsPort),
		Command: command, User: concourse.WebUser, Group: concourse.WebUser,
		Check: role.JobsService, URL: role.JobsURL}})
	return nil
}
