package tasknotice

import (
	"errors"
	"fmt"

	"concourse-ci-machine/internal/pool/lease"
)

var errNoContainer = errors.New("no such container runs")

// container is the processes of one.
type container struct {
	init  lease.Process // idle, in Concourse's
	tasks []lease.Process
}

// find finds a container by its handle.
func (t Tasks) find(handle string) (c container, err error) {
	inits, err := t.Leases.Inits(handle)
	switch {
	case err != nil:
		return c, err
	case len(inits) == 0:
		return c, errNoContainer
	case len(inits) > 1:
		return c, fmt.Errorf("processes %d and %d both look like its first one", inits[0].PID, inits[1].PID)
	}
	c.init = inits[0]
	tasks, there, err := t.Leases.Members(c.init)
	if c.tasks = tasks; err == nil && !there {
		err = errNoContainer
	}
	return c, err
}
