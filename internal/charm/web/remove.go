package web

import (
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// Stop stops the web.
func Stop(o role.Observed, why string) []plan.Resource {
	return []plan.Resource{resource.Service{Unit: concourse.WebUnit, State: o.Units[concourse.WebUnit], Why: why}}
}

// RemoveFromWorker removes the files of a previous web from a worker's unit, above all its
// credentials.
func RemoveFromWorker(o role.Observed) []plan.Resource {
	why := "this unit is a worker"
	return slices.Concat(Stop(o, why), secrets(concourse.WebFiles(o.Shared()), why),
		resource.AllAbsent(why, concourse.WebUnitFile, NoteFile, HoldFile, FlagsFile, resource.Stamp(ForgetWorker)))
}

// RemoveAll removes all files of a web, with and without shared storage, after Stop. Files
// among the charm's notes and stamps are removed with their folders.
func RemoveAll(why string) []plan.Resource {
	return slices.Concat(secrets(concourse.HomeWebFiles(), why), secrets(concourse.SeparateWebFiles(), why),
		resource.AllAbsent(why, concourse.WebUnitFile), role.NoJobExporter(why))
}

func secrets(paths concourse.WebPaths, why string) []plan.Resource {
	return append(resource.AllAbsent(why, paths.Env()), resource.Absent{Path: paths.KeyDir(), Why: why, Tree: true})
}
