// Package gpuhealth reads the state of this machine's GPUs: from the record of their owner,
// from the exporter, which has their history, or once from the driver.
package gpuhealth

import (
	"cmp"
	"fmt"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// State describes the health of one GPU in the action gpu-health.
type State struct {
	Index     int          `json:"index"` // the number in gpu-device-ids
	Name      string       `json:"name"`
	PCI       string       `json:"pci"`
	Partition int          `json:"partition"`
	State     health.State `json:"state"`
	Score     *float64     `json:"score"` // 0 to 100; null if the state is unknown
	Reason    string       `json:"reason"`
	Codes     []int        `json:"codes"` // of explain-error, for the reason
}

// SeeCodes refers to the explanation of errors.
func SeeCodes(c wellknown.Commands, codes []int) string {
	if len(codes) == 0 {
		return ""
	}
	return " (see " + c.Explain(codes...) + ")"
}

// States extracts the health from a report.
func States(all []api.Status) (out []State) {
	for _, s := range all {
		g := State{Index: s.Index, Name: s.Name, PCI: s.PCI, Partition: s.Partition,
			State: cmp.Or(s.Health.State, health.Unknown),
			Score: s.Health.Score, Reason: cmp.Or(s.Health.Reason, "nothing is known of it"), Codes: knownCodes(s.Health.Codes)}
		out = append(out, g)
	}
	return out
}

// knownCodes returns the codes that explain-error has.
func knownCodes(codes []int) []int {
	known := []int{}
	for _, n := range codes {
		if n >= 1 && n <= 8 {
			known = append(known, n)
		}
	}
	return known
}

// MaxNamed is the number of GPUs that a heading names.
const MaxNamed = 4

// CriticalCauses returns the critical GPUs for the unit's status.
func CriticalCauses(all []api.Status, commands wellknown.Commands) (causes []status.Cause) {
	for _, s := range States(all) {
		if s.State != health.Critical {
			continue
		}
		c := status.Warn("GPU %d is critical: %s", s.Index, s.Reason)
		for _, code := range s.Codes {
			c = c.Run(commands.RunAction(fmt.Sprintf("explain-error code=%d", code)))
		}
		causes = append(causes, c)
	}
	return causes
}

// Critical names the critical GPUs, and the number beyond MaxNamed.
func Critical(c wellknown.Commands, states []State) (seen []string) {
	more := 0
	for _, s := range states {
		switch {
		case s.State != health.Critical:
		case len(seen) == MaxNamed:
			more++
		default:
			seen = append(seen, fmt.Sprintf("GPU %d is critical: %s%s", s.Index, s.Reason, SeeCodes(c, s.Codes)))
		}
	}
	if more > 0 {
		seen = append(seen, fmt.Sprintf("%d more GPUs are critical", more))
	}
	return seen
}

// NotInService names the GPUs that no new task gets, and the number beyond MaxNamed.
func NotInService(all []api.Status) (seen []string) {
	more := 0
	for _, s := range all {
		switch {
		case !s.Excluded():
		case len(seen) == MaxNamed:
			more++
		default:
			seen = append(seen, fmt.Sprintf("GPU %d has been %s %s", s.Index, s.Service.State, s.Service.Text()))
		}
	}
	if more > 0 {
		seen = append(seen, fmt.Sprintf("%d more GPUs are not given to tasks", more))
	}
	return seen
}
