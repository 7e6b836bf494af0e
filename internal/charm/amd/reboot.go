package amd

import (
	"fmt"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// RebootFile records the reasons of this machine's reboots.
const RebootFile = wellknown.StateDir + "/reboots.json"

type reboot struct {
	Reason string `json:"reason"`
	Boot   string `json:"boot"` // /proc/sys/kernel/random/boot_id at the request
}

// rebootFile is not disposable, because a second reboot could not be detected without it.
var rebootFile = statefile.File[[]reboot]{Path: RebootFile, Mode: 0o600}

func readReboots(r host.Root) ([]reboot, error) {
	all, err := rebootFile.Read(r)
	if err != nil {
		return nil, fmt.Errorf("cannot read why this machine was rebooted: %w; look at %s and remove it", err,
			RebootFile)
	}
	return all, nil
}

// RebootDue reports whether the machine may be rebooted for a reason, and records the
// attempt before the request. Each reason has one attempt. A reason of this boot is in
// progress or was refused, and a reason of an earlier boot did not help: both are over. An
// error means no reboot.
func RebootDue(r host.Root, reason, bootID string) (bool, error) {
	if reason == "" || bootID == "" {
		return false, fmt.Errorf("cannot reboot: want a reason and the boot's id, not %q and %q", reason, bootID)
	}
	all, err := readReboots(r)
	if err != nil {
		return false, err
	}
	for _, was := range all {
		if was.Reason == reason {
			return false, nil
		}
	}
	if err := rebootFile.Write(r, append(all, reboot{reason, bootID})); err != nil {
		return false, fmt.Errorf("cannot reboot: the attempt can't be noted: %w", err)
	}
	return true, nil
}

// ClearReboots removes the record when no reboot is needed, so that the same reason gets
// another attempt later.
func ClearReboots(r host.Root) error { return rebootFile.Remove(r) }

// RebootPending returns the cause while a reboot is needed and not requested, or did not
// help.
func RebootPending(r host.Root, reason string, f DriverFacts, w Wanted) status.Cause {
	need := status.Block("reboot needed: %s", strings.TrimSuffix(reason, "."))
	switch {
	case f.Kind == LXD:
		return need.Explain("reboot %s of this container: its kernel has the driver", f.Manager.Host())
	case f.Kind.Contained():
		return need.Explain("reboot the host of this container: its kernel has the driver")
	}
	all, err := readReboots(r)
	if err != nil {
		return need.Explain("%v", err)
	}
	for _, was := range all {
		switch {
		case was.Reason != reason:
		case was.Boot == f.BootID:
			return need.Explain("it was requested")
		default:
			return need.Explain("one reboot did not help: see dmesg, then reboot it by hand, " +
				"or run the action reset-rocm")
		}
	}
	if w.AllowReboot {
		return need.Explain("it is requested")
	}
	return need.Fix(w.Commands.SetOption("allow-reboot=true"), "or run: "+w.Commands.OnUnit("sudo reboot"))
}
