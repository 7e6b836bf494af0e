package host

import (
	"fmt"
	"os/exec"
	"syscall"
)

// Detach starts a program in a session of its own and waits for nothing: it outlives this
// process, whose outputs it does not have, and is its new parent's to reap.
func Detach(program string, args ...string) error {
	c := exec.Command(program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", program, err)
	}
	return c.Process.Release()
}
