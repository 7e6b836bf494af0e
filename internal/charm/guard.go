package charm

import (
	"fmt"
	"io"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

// guard moves the steps that would end tasks from due to deferred, unless the operator
// ended the tasks.
func guard(all plan.Plan, endsTasks bool) (due, deferred plan.Plan) {
	for _, s := range all {
		if s.Disrupts == role.RunningTasks && !endsTasks {
			deferred = append(deferred, s)
			continue
		}
		due = append(due, s)
	}
	return due, deferred
}

func deferredCauses(deferred plan.Plan) []status.Cause {
	if len(deferred) == 0 {
		return nil
	}
	return []status.Cause{status.Wait("the worker is left running: stopping it would end %s", deferred[0].Disrupts)}
}

// PrintPlan writes a plan for people.
func PrintPlan(w io.Writer, due, deferred plan.Plan) error {
	if err := due.Print(w); err != nil {
		return err
	}
	for _, s := range deferred {
		if _, err := fmt.Fprintf(w, "held back: %s (%s): it would end %s\n", s.Op, s.Why, s.Disrupts); err != nil {
			return err
		}
	}
	return nil
}
