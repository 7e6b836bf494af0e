package notice

import (
	"errors"
	"fmt"
	"io"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Notify plans and delivers the notices of a look, and logs its actions to w. A task that
// cannot be notified is not an error. It is tried again at later looks if that can help.
func (t Tasks) Notify(h host.Host, w io.Writer, l Look) error {
	before, err := Read(h.Root)
	if err != nil {
		return err
	}
	m, notices := before.Plan(l)
	// First, so that a kill between the two loses a notice and does not repeat it.
	if err := file.Write(h.Root, m); err != nil {
		return err
	}
	for _, n := range notices {
		c, err := t.find(n.Container)
		if err == nil {
			err = t.notify(c, n.Text)
		}
		switch {
		case err == nil:
			fmt.Fprintf(w, "container %s gets the notice: %s\n", n.Container, n.Text)
		case errors.Is(err, errNoContainer): // it has ended
		case errors.Is(err, errNoTask) || errors.Is(err, errFull):
			m = m.without(n)
		default:
			fmt.Fprintf(w, "cannot write a notice to container %s: %v\n", n.Container, err)
		}
	}
	return file.Write(h.Root, m)
}

var errNoContainer = errors.New("no such container runs")

// container holds the processes of a container.
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
