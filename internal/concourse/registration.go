package concourse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
)

// RegistrationState names the worker's registration according to its log.
type RegistrationState string

// The states. Unknown also results for a registered worker with a log level above info,
// because the worker logs its registration at info.
const (
	Registered RegistrationState = "registered"
	Lost       RegistrationState = "lost"
	Unknown    RegistrationState = "unknown"
)

// Registration has a state and, if it is Lost, the worker's reason.
type Registration struct {
	State RegistrationState
	Why   string
}

const (
	registeredMessage = "worker.beacon-runner.beacon.registered"
	failedMessage     = "worker.beacon-runner.failed"
)

// CheckRegistration searches the journal. Only lines of the given invocation
// (resource.UnitState) are valid, because a restart outdates earlier lines. Without an
// invocation all lines are valid.
func CheckRegistration(ctx context.Context, r host.Runner, invocation string) (Registration, error) {
	// With --lines alone the journalctl of Ubuntu 22.04 greps in the last line only.
	argv := []string{"journalctl", "--unit", Unit, "--output", "cat", "--no-pager", "--reverse", "--lines", "1",
		"--grep", `worker\.beacon-runner\.(beacon\.registered|failed)`}
	if invocation != "" {
		argv = append(argv, "_SYSTEMD_INVOCATION_ID="+invocation)
	}
	out, err := r.Run(ctx, host.Command{ReadOnly: true, Deadline: 30 * time.Second, Argv: argv})
	var cmd *host.CommandError
	if errors.As(err, &cmd) && cmd.Code == 1 && cmd.Stderr == "" {
		return Registration{State: Unknown}, nil // journalctl reports in this way that no line matched
	}
	if err != nil {
		return Registration{State: Unknown}, fmt.Errorf("cannot ask for the registration: %w", err)
	}
	return parseRegistration(out), nil
}

// parseRegistration reads log lines of the worker, which are JSON objects with a dotted
// path as message. The last relevant line decides.
func parseRegistration(out []byte) Registration {
	reg := Registration{State: Unknown}
	for line := range bytes.Lines(out) {
		var entry struct {
			Message string `json:"message"`
			Data    struct {
				Error any `json:"error"`
			} `json:"data"`
		}
		if json.Unmarshal(line, &entry) != nil {
			continue
		}
		switch entry.Message {
		case registeredMessage:
			reg = Registration{State: Registered}
		case failedMessage:
			reg = Registration{State: Lost}
			if text, ok := entry.Data.Error.(string); ok {
				reg.Why = oneLine(strings.TrimSpace(text))
			}
		}
	}
	return reg
}
