package web

import (
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/role"
)

// Stop ends what runs of a web.
func Stop(o role.Observed, why string) []plan.Resource {
	return []plan.Resource{resource.Service{Unit: concourse.WebUnit, State: o.Units[concourse.WebUnit], Why: why}}
}

// Gone is a worker's unit without what a web left: its credentials above all.
func Gone(o role.Observed) []plan.Resource {
	why := "this unit is a worker"
	return append(Stop(o, why), left(concourse.WebFiles(o.Shared()), why)...)
}

// Leave is a unit without anything that a web brought, wherever it had its files,
// once Stop ended what runs.
func Leave(why string) []plan.Resource {
	rs := append(left(concourse.WebFiles(false), why), left(concourse.WebFiles(true), why)...)
	return append(rs, resource.Absent{Path: role.JobsCredentials, Why: why})
}

func left(paths concourse.WebPaths, why string) []plan.Resource {
	return []plan.Resource{
		resource.Absent{Path: concourse.WebUnitFile, Why: why},
		resource.Absent{Path: paths.Env(), Why: why},
		resource.Absent{Path: WebLimitFile, Why: why},
		resource.Absent{Path: paths.KeyDir(), Why: why, Tree: true},
		resource.Absent{Path: resource.Stamp(ForgetWorker), Why: why},
	}
}
