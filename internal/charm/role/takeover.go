package role

import (
	"errors"

	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
)

// Remediable marks errors that only the operator can fix. Remedy returns the fix.
type Remediable interface{ Remedy() string }

// Refusals returns the reasons why the Python charm's service cannot be taken over now. They
// are found before the first step. While there is a reason, nothing changes and the service
// keeps running. A stopped service is not a reason, and also not a service that the operator
// ended by removing a relation. able reports that the service will run again or must end.
// why has the obstacles.
func Refusals(o Observed, able bool, why []status.Cause) (causes []status.Cause) {
	for _, err := range o.Refused {
		var r Remediable
		if errors.As(err, &r) {
			causes = append(causes, status.Cause{Kind: status.Blocked, Text: r.Remedy()})
		}
	}
	unit, what := concourse.Unit, "worker"
	if o.Facts.Role == model.WebRole {
		unit, what = concourse.WebUnit, "web"
	}
	running := o.TakesOver && o.Units[unit].Running()
	if running && !able && len(causes) == 0 {
		causes = append(causes, why...)
	}
	if running && len(causes) > 0 {
		causes = append(causes, status.Cause{Kind: status.Waiting, Text: "the Python charm's " + what +
			" runs on until then"})
	}
	return causes
}
