package role

import (
	"errors"

	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
)

// Remediable is what errors implement that only the operator can mend; their text
// says how.
type Remediable interface{ Remedy() string }

// Refusals is why the Python charm's service can't be taken over as things are,
// judged before the first step: as long as there is one, nothing of it is
// changed, and what runs goes on. A service that does not run has nothing to
// lose, and one whose relation the operator takes away is to end: able says
// that it will run again or is to end, why is what keeps it from that.
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
		causes = append(causes, status.Cause{Kind: status.Waiting, Text: "the Python charm's " + what + " runs on until then"})
	}
	return causes
}
