package actions

import (
	"errors"
	"fmt"
)

// checkLeases is for check-status: leases that nobody can judge keep GPUs from
// tasks. A unit whose tasks share them has nothing to check.
func (c *Actions) checkLeases(r *report) {
	held, of, doubts, on, err := c.GPUs().Leases()
	if err == nil && !on {
		return
	}
	for _, d := range doubts {
		r.add("lease of "+d.GPU, fmt.Errorf("in doubt: %s", d.Doubt), "")
	}
	r.add("leases", err, fmt.Sprintf("%d of %d GPUs held", held, of))
}

// checkInService is for check-status: GPUs that no new task gets, each with the command
// that helps. That some are withheld is the charm at work; with none left, or one that
// waits for a person, the unit does not do what it is there for. A unit whose AMD GPUs
// nobody watches has nothing to check.
func (c *Actions) checkService(unit string, r *report) {
	out, of, err := c.GPUs().OutOfService(unit)
	if err == nil && of == 0 {
		return
	}
	for _, g := range out {
		if name := "service of " + g.GPU; g.Manual {
			r.add(name, errors.New(g.Text), "")
		} else {
			r.warn(name, g.Text)
		}
	}
	warnings, unread := c.GPUs().Warnings()
	for _, g := range warnings {
		r.warn("tasks of "+g.GPU, g.Text)
	}
	if err = errors.Join(err, unread); err == nil && len(out) == of {
		err = fmt.Errorf("0 of %d; tasks that ask for a GPU are refused", of)
	}
	r.add("gpus in service", err, fmt.Sprintf("%d of %d", of-len(out), of))
}
