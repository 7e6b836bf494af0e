package notice

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// settle is the time between a notice and the task's end. Concourse can lose the last
// output of a task with a terminal.
const settle = time.Second

// Notify plans and delivers the notices of a look, and logs its actions to w. A task that
// cannot be notified or ended is not an error. It is tried again at later looks if that can
// help.
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
	var end []string
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
		ending := slices.ContainsFunc(m.Ending, func(e Ending) bool { return e.Container == n.Container })
		if n.End && !ending && len(c.tasks) > 0 && !slices.Contains(end, n.Container) {
			end = append(end, n.Container)
		}
	}
	m.Ending = t.continueEnds(w, m.Ending, l.At)
	if len(end) > 0 {
		h.Sleep(settle)
	}
	for _, handle := range end {
		if e, ok := t.beginEnd(w, handle, l.At); ok {
			m.Ending = append(m.Ending, e)
		}
	}
	return file.Write(h.Root, m)
}

// beginEnd sends SIGTERM to a container's task.
func (t Tasks) beginEnd(w io.Writer, handle string, at time.Time) (e Ending, ok bool) {
	c, err := t.find(handle)
	if err == nil {
		err = t.signal(c, unix.SIGTERM)
	}
	if err != nil {
		fmt.Fprintf(w, "cannot end the task in container %s: %v\n", handle, err)
		return e, false
	}
	fmt.Fprintf(w, "the task in container %s is ended: %d processes\n", handle, len(c.tasks))
	return Ending{handle, c.init, at}, true
}

// continueEnds kills tasks that did not end within their time. It returns those that still
// have a process.
func (t Tasks) continueEnds(w io.Writer, all []Ending, at time.Time) (left []Ending) {
	for _, e := range all {
		c, err := t.find(e.Container)
		if errors.Is(err, errNoContainer) || err == nil && (c.init != e.Init || len(c.tasks) == 0) {
			continue
		}
		left = append(left, e)
		if err == nil && at.Sub(e.At).Abs() < grace {
			continue
		}
		if err == nil {
			fmt.Fprintf(w, "the task in container %s does not end by itself: %d processes are killed\n",
				e.Container, len(c.tasks))
			err = t.signal(c, unix.SIGKILL)
		}
		if err != nil {
			fmt.Fprintf(w, "cannot end the task in container %s: %v\n", e.Container, err)
		}
	}
	return left
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

// signal sends a signal to all processes of a container except its init. Concourse sees its
// own process end, and the build fails as if a command failed. Tasks.find identified the
// processes by their namespace. Each one is verified again when the kernel holds it for
// this program, so no other process can get the signal.
func (t Tasks) signal(c container, sig unix.Signal) error {
	var failed error
	for _, p := range c.tasks {
		if err := t.Leases.Signal(p, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			failed = err
		}
	}
	return failed
}
