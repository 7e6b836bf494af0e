package worker

import (
	"fmt"
	"strings"

	"concourse-ci-machine/internal/role"
	"concourse-ci-machine/internal/status"
)

// miss tells of GPUs that are gone. A worker that had some is none for all steps
// because it has lost them, also where compute-runtime=auto takes what there is.
func (g *GPUs) miss(o Observed) role.KnownGPUs {
	now, gone := o.Known.With(o.Config.ComputeRuntime, g.All)
	if len(gone) == 0 {
		return now
	}
	g.Asked = true
	what := "1 GPU"
	if fewer := len(now.PCI) - len(role.Addresses(g.All)); fewer > 1 {
		what = fmt.Sprintf("%d GPUs", fewer)
	}
	g.Remarks = append(g.Remarks, status.Cause{Kind: status.Active, Text: fmt.Sprintf("%s fewer than before, gone: %s; give them back, or go on without them: juju run %s accept-gpus",
		what, strings.Join(gone, ", "), o.Facts.Unit)})
	return now
}
