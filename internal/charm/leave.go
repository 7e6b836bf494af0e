package charm

import (
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/lease"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/resource"
)

// desireNothing is the unit on its way out. stop ends what runs, after its
// tasks had their time; remove takes away what the charm brought. Releases and
// the work folder stay: they may be shared, and they hold no secret.
func desireNothing(o Observed) Desired {
	why := "the unit is being removed"
	d := Desired{Remove: true}
	d.Resources = append(d.Resources,
		concourse.Drain{State: o.Units[concourse.Unit], Limit: o.Config.DrainTimeout, Why: why, Disrupts: RunningTasks},
		resource.Service{Unit: concourse.WebUnit, State: o.Units[concourse.WebUnit], Why: why},
		resource.Service{Unit: PebbleUnit, State: o.Units[PebbleUnit], Why: why},
		resource.Service{Unit: refreshUnit, State: o.Units[refreshUnit], Why: why})
	if o.Event != "remove" {
		return d
	}
	files := []string{concourse.UnitFile, "/etc/systemd/system/" + PebbleUnit, oci.DefaultConfig, concourse.UnitRecord(o.Facts.Unit),
		concourse.WebUnitFile, jobsCredentials, LeaseReport}
	for _, shared := range []bool{false, true} {
		paths := concourse.WebFiles(shared)
		files = append(files, paths.Env())
		d.Resources = append(d.Resources, resource.Absent{Path: paths.KeyDir(), Why: why, Tree: true})
	}
	// The note of what was brought is in StateDir, which goes last.
	d.Resources = append(d.Resources, leaveGPUs(o, why)...)
	for _, path := range files {
		d.Resources = append(d.Resources, resource.Absent{Path: path, Why: why})
	}
	for _, path := range []string{concourse.ConfigDir, "/opt/concourse-ci-machine", StateDir, lease.DefaultDir} {
		d.Resources = append(d.Resources, resource.Absent{Path: path, Why: why, Tree: true})
	}
	// Of the folder in /run only the lock stays: this run holds it.
	for _, name := range []string{reloadWorker, restartWorker, reloadPebble, restartPebble, reloadRefresh, reloadWebUnit, restartWeb, reloadWeb, repairDatabase, forgetWorker} {
		d.Resources = append(d.Resources, resource.Absent{Path: resource.StampDir + "/" + name + ".stamp", Why: why})
	}
	d.Resources = append(d.Resources, resource.Absent{Path: versionFile, Why: why})
	return d
}
