// Package gpuhealth reads the state of this machine's GPUs: from the record of their owner,
// from the exporter, which has their history, or once from the driver.
package gpuhealth

import (
	"fmt"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// SeeCodes refers to the explanation of errors.
func SeeCodes(c wellknown.Commands, codes []int) string {
	if len(codes) == 0 {
		return ""
	}
	return " (see " + c.Explain(codes...) + ")"
}

// MaxNamed is the number of GPUs that a heading names.
const MaxNamed = 4

// CriticalCauses returns the critical GPUs for the unit's status.
func CriticalCauses(all []api.Status, commands wellknown.Commands) (causes []status.Cause) {
	for _, s := range all {
		if s.Health.State != health.Critical {
			continue
		}
		c := status.Warn("GPU %d is critical: %s", s.Index, s.Health.Reason)
		for _, code := range s.Health.Codes {
			c = c.Run(commands.RunAction(fmt.Sprintf("explain-error code=%d", code)))
		}
		causes = append(causes, c)
	}
	return causes
}

// Critical names the critical GPUs, and the number beyond MaxNamed.
func Critical(c wellknown.Commands, all []api.Status) (seen []string) {
	more := 0
	for _, s := range all {
		switch h := s.Health; {
		case h.State != health.Critical:
		case len(seen) == MaxNamed:
			more++
		default:
			seen = append(seen, fmt.Sprintf("GPU %d is critical: %s%s", s.Index, h.Reason, SeeCodes(c, h.Codes)))
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
