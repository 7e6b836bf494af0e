package tasknotice

import (
	"errors"

	"golang.org/x/sys/unix"
)

// signal sends a signal to all processes of a container but its init: Concourse sees its
// own process end, and the build fails as when a command fails. Who a process is was seen
// in Tasks.find, by its namespace; that it is still the same one is seen once the kernel
// holds on to it for this program, so that no other process is ever meant.
func (t Tasks) signal(c container, sig unix.Signal) error {
	var failed error
	for _, p := range c.tasks {
		if err := t.Leases.Signal(p, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			failed = err
		}
	}
	return failed
}
