package charm

import (
	"slices"

	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/charm/worker"
	"concourse-ci-machine/internal/concourse"
)

// Desired is what the unit should be. It has one role at most, and the other's part is
// empty.
type Desired struct {
	role.Desired
	Worker worker.Worker
	Web    web.Web
}

// MainUnit is what the unit is there for.
func (d Desired) MainUnit() string {
	switch {
	case d.Web.Up:
		return concourse.WebUnit
	case d.Worker.Up:
		return concourse.Unit
	}
	return ""
}

// OperatorsTurn reports whether something keeps the unit from its work that no
// step of the charm's can mend.
func (d Desired) OperatorsTurn() bool {
	return d.Worker.Driver != nil && len(d.Worker.Driver.Decision.Remedies) > 0 ||
		slices.ContainsFunc(d.Causes, func(c status.Cause) bool { return c.Kind == status.Blocked })
}
