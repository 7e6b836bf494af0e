package beacon

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
)

// maxWhy bounds the reason of a lost registration.
const maxWhy = 200

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
	State RegistrationState `json:"state"`
	Why   string            `json:"why,omitempty"`
}

const (
	registeredMessage = "worker.beacon-runner.beacon.registered"
	failedMessage     = "worker.beacon-runner.failed"
)

// ParseRegistration reads log lines of the worker, which are JSON objects with a dotted
// path as message. The last relevant line decides.
func ParseRegistration(out []byte) Registration {
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
				reg.Why = sanitize.Line(strings.Join(strings.Fields(text), " "), maxWhy)
			}
		}
	}
	return reg
}
