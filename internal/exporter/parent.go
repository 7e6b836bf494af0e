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
//
// The kernel keeps the request with the thread that made it, and acts when the
// parent's thread that started this process ends. Go ends no thread but one that
// a goroutine was locked to; there is none here and none in Pebble. The signal is
// dropped when a program changes its user, so nothing may do so after this.
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
