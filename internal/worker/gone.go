package worker

import (
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/role"
)

// Gone is a web's unit without what a worker left: its role can change
// when another unit leads (D3, D21).
func Gone(o role.Observed) []plan.Resource {
	why := "this unit is the web"
	return []plan.Resource{
		concourse.Drain{State: o.Units[concourse.Unit], Why: why},
		resource.Absent{Path: concourse.UnitFile, Why: why},
		resource.Absent{Path: concourse.EnvFile, Why: why},
		resource.Absent{Path: concourse.TSAHostKey, Why: why},
		resource.Absent{Path: role.LandedFile, Why: why},
		resource.Absent{Path: WorkerLimitFile, Why: why},
	}
}
