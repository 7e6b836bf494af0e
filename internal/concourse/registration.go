package concourse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// Registration has a state and, if it is Lost, the worker's reason.
type Registration = beacon.Registration

// The states.
const (
	Registered = beacon.Registered
	Lost       = beacon.Lost
	Unknown    = beacon.Unknown
)

// Levels of the worker's log. Only info and debug have its registrations.
const (
	LogsRegistrations = "all lines"
	LogsFailures      = "only failures to register"
)

// AttemptTime bounds the time between two attempts to register: 10 s for each web, and a
// pause of 5 s. Without a failure for so long, a worker is registered.
const AttemptTime = time.Minute

// CheckRegistration searches the journal, which has one of the levels. Only lines of the
// given invocation (resource.UnitState) are valid, because a restart outdates earlier lines.
// Without an invocation all lines are valid.
func CheckRegistration(ctx context.Context, r host.Runner, invocation, level string) (Registration, error) {
	// With --lines alone the journalctl of Ubuntu 22.04 greps in the last line only.
	argv := []string{"journalctl", "--unit", Unit, "--output", "cat", "--no-pager", "--reverse", "--lines", "1",
		"--grep", `worker\.beacon-runner\.(beacon\.registered|failed)`}
	if level == LogsFailures {
		argv = append(argv, "--since", fmt.Sprintf("-%.0fs", AttemptTime.Seconds()))
	}
	if invocation != "" {
		argv = append(argv, "_SYSTEMD_INVOCATION_ID="+invocation)
	}
	out, err := r.Run(ctx, host.Command{ReadOnly: true, Deadline: 30 * time.Second, Argv: argv})
	if cmd, ok := errors.AsType[*host.CommandError](err); ok && cmd.Code == 1 && cmd.Stderr == "" {
		return Registration{State: Unknown}, nil // journalctl reports in this way that no line matched
	}
	if err != nil {
		return Registration{State: Unknown}, fmt.Errorf("cannot read the registration: %w", err)
	}
	return beacon.ParseRegistration(out), nil
}
