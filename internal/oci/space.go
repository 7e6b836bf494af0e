package oci

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// waitForSpace refuses a step of a build while the disk of the volumes is full, after the
// wait for a quarantined GPU. Concourse then runs the step again, because of the words
// "worker ... disappeared" (see lease.RunAgain). Checks are not refused, because Concourse
// does not run them again.
func (w *wrapper) waitForSpace(s *settings, f facts) error {
	if s.Volumes == "" || w.foreign || !f.step {
		return nil
	}
	for waited := time.Duration(0); ; waited += waitPause {
		var st unix.Statfs_t
		if w.statfs(s.Volumes, &st) != nil {
			return nil // the volumes themselves fail
		}
		space := wellknown.SpaceOf(st)
		if !space.Full() {
			return nil
		}
		if waited >= quarantineTime {
			return fmt.Errorf("cannot run the step: the disk of %s is full (%s of %s free); as on this worker free "+
				"space has disappeared, Concourse runs the step again: on another worker, or here "+
				"when space is free", s.Volumes, units.Bytes(float64(space.Free)), units.Bytes(float64(space.Size)))
		}
		w.sleep(waitPause)
	}
}
