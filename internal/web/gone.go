package web

import (
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/role"
)

// Gone is a worker's unit without what a web left: its credentials above all.
func Gone(o role.Observed) []plan.Resource {
	why := "this unit is a worker"
	paths := concourse.WebFiles(o.Shared())
	return []plan.Resource{
		resource.Service{Unit: concourse.WebUnit, State: o.Units[concourse.WebUnit], Why: why},
		resource.Absent{Path: concourse.WebUnitFile, Why: why},
		resource.Absent{Path: paths.Env(), Why: why},
		resource.Absent{Path: WebLimitFile, Why: why},
		resource.Absent{Path: paths.KeyDir(), Why: why, Tree: true},
		resource.Absent{Path: resource.StampDir + "/" + ForgetWorker + ".stamp", Why: why},
	}
}
