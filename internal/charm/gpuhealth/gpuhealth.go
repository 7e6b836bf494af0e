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
