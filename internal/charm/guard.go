package charm

import (
	"fmt"
	"io"
	"slices"

	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/status"
)

// RunningTasks is what stopping a worker for good disrupts. Restarting one
// does not: its containers live on and the new process takes them over.
const RunningTasks = "running tasks"

// guard takes the steps out of a plan that the event does not warrant: tasks
// are ended only where the operator said so, by removing the unit or its
// relation. A web that goes away for a while does not end them.
func guard(all plan.Plan, event string) (due, held plan.Plan) {
	for _, s := range all {
		if s.Disrupts == RunningTasks && !endsTasks(event) {
			held = append(held, s)
			continue
		}
		due = append(due, s)
	}
	return due, held
}

// endsTasks reports whether the operator's doing ends the worker's tasks.
func endsTasks(event string) bool { return model.Leaving(event) || event == "flight-relation-broken" }

func heldCauses(held plan.Plan) []status.Cause {
	if len(held) == 0 {
		return nil
	}
	return []status.Cause{{Kind: status.Waiting, Text: fmt.Sprintf("the worker is left running: stopping it would end %s", held[0].Disrupts)}}
}

// PrintPlan writes a plan as people read it.
func PrintPlan(w io.Writer, due, held plan.Plan) error {
	if err := due.Print(w); err != nil {
		return err
	}
	for _, s := range held {
		if _, err := fmt.Fprintf(w, "held back: %s (%s): it would end %s\n", s.Op, s.Why, s.Disrupts); err != nil {
			return err
		}
	}
	return nil
}

// OperatorsTurn reports whether something keeps the unit from its work that no
// step of the charm's can mend.
func (d Desired) OperatorsTurn() bool {
	return d.Driver != nil && len(d.Driver.Decision.Remedies) > 0 ||
		slices.ContainsFunc(d.Causes, func(c status.Cause) bool { return c.Kind == status.Blocked })
}
