package exporter

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// endWithParent has the kernel send SIGTERM when the parent dies. A supervisor
// that is killed cannot stop its services; one that lived on would hold the
// port, and its successor could never start.
func endWithParent() error {
	parent := os.Getppid()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot ask for a signal at the parent's end: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("cannot go on: the process that started this one has ended")
	}
	return nil
}
