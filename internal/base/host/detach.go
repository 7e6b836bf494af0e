package host

import (
	"fmt"
	"os/exec"
	"syscall"
)

// Detach starts a program in a separate session and does not wait for it. The program
// outlives this process and does not inherit its outputs. Its new parent reaps it.
func Detach(program string, args ...string) error {
	c := exec.Command(program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", program, err)
	}
	return c.Process.Release()
}
