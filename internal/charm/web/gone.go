package web

import (
	"slices"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
)

// Stop ends what runs of a web.
func Stop(o role.Observed, why string) []plan.Resource {
	return []plan.Resource{resource.Service{Unit: concourse.WebUnit, State: o.Units[concourse.WebUnit], Why: why}}
}

// Gone is a worker's unit without what a web left: its credentials above all.
func Gone(o role.Observed) []plan.Resource {
	why := "this unit is a worker"
	return slices.Concat(Stop(o, why), secrets(concourse.WebFiles(o.Shared()), why),
		resource.AllAbsent(why, concourse.WebUnitFile, NoteFile, HoldFile, resource.Stamp(ForgetWorker)))
}

// Leave is a unit without anything that a web brought, wherever it had its files,
// once Stop ended what runs. What lies among the charm's own notes and stamps goes with
// these.
func Leave(why string) []plan.Resource {
	return slices.Concat(secrets(concourse.WebFiles(false), why), secrets(concourse.WebFiles(true), why),
		resource.AllAbsent(why, concourse.WebUnitFile, role.JobsCredentials))
}

func secrets(paths concourse.WebPaths, why string) []plan.Resource {
	return append(resource.AllAbsent(why, paths.Env()), resource.Absent{Path: paths.KeyDir(), Why: why, Tree: true})
}
