package tasknotice

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
)

// settle is the time between a line and the task's end. Concourse can lose what a task
// with a terminal says right before it ends.
const settle = time.Second

// Tell does what follows from a look, and says on w what it did. That a task can't be
// told or ended is no error: it is tried again at later looks where that can help.
func (t Tasks) Tell(h host.Host, w io.Writer, l Look) error {
	before, err := Read(h.Root)
	if err != nil {
		return err
	}
	m, notes := before.Plan(l)
	// First, so that a kill between the two costs a line and does not repeat it.
	if err := write(h.Root, m); err != nil {
		return err
	}
	var end []string
	for _, n := range notes {
		c, err := t.find(n.Container)
		if err == nil {
			err = t.tell(c, n.Text)
		}
		switch {
		case err == nil:
			fmt.Fprintf(w, "container %s is told: %s\n", n.Container, n.Text)
		case errors.Is(err, errNoContainer): // it has ended
		case errors.Is(err, errNoTask) || errors.Is(err, errFull):
			m = m.without(n)
		default:
			fmt.Fprintf(w, "cannot tell container %s: %v\n", n.Container, err)
		}
		ending := slices.ContainsFunc(m.Ending, func(e Ending) bool { return e.Container == n.Container })
		if n.End && !ending && len(c.tasks) > 0 && !slices.Contains(end, n.Container) {
			end = append(end, n.Container)
		}
	}
	m.Ending = t.goOn(w, m.Ending, l.At)
	if len(end) > 0 {
		h.Sleep(settle)
	}
	for _, handle := range end {
		if e, ok := t.begin(w, handle, l.At); ok {
			m.Ending = append(m.Ending, e)
		}
	}
	return write(h.Root, m)
}

// begin asks a container's task to end.
func (t Tasks) begin(w io.Writer, handle string, at time.Time) (e Ending, ok bool) {
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

// goOn ends those that were asked to, and did not within their time. It returns those
// that still have a process.
func (t Tasks) goOn(w io.Writer, all []Ending, at time.Time) (left []Ending) {
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
			fmt.Fprintf(w, "the task in container %s does not end by itself: %d processes are killed\n", e.Container, len(c.tasks))
			err = t.signal(c, unix.SIGKILL)
		}
		if err != nil {
			fmt.Fprintf(w, "cannot end the task in container %s: %v\n", e.Container, err)
		}
	}
	return left
}
