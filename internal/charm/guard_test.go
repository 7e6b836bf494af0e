package charm

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/role"
	"concourse-ci-machine/internal/status"
)

// D18: only the operator ends tasks: by removing the unit or its relation.
func TestGuardHoldsBackWhatWouldEndTasks(t *testing.T) {
	step := func(op, disrupts string) plan.Step {
		return plan.Step{Op: op, Why: "because", Disrupts: disrupts, Do: func(context.Context) error { return nil }}
	}
	all := plan.Plan{step("write x", ""), step("stop worker", role.RunningTasks), step("restart exporter", "metrics")}
	for event, defers := range map[string]bool{
		"config-changed": true, "update-status": true, "upgrade-charm": true, "flight-relation-departed": true, "start": true,
		"plan-action": true, "flight-relation-broken": false, "peers-relation-broken": false, "stop": false, "remove": false,
	} {
		due, kept := guard(all, event)
		require.Len(t, append(due, kept...), 3, event)
		var b strings.Builder
		require.NoError(t, PrintPlan(&b, due, kept))
		if !defers {
			require.Empty(t, kept, event)
			require.Empty(t, deferredCauses(kept))
			continue
		}
		require.Equal(t, "1/2 write x (because)\n2/2 restart exporter (because)\n"+
			"held back: stop worker (because): it would end running tasks\n", b.String(), event)
		require.Equal(t, []status.Cause{{Kind: status.Waiting, Text: "the worker is left running: stopping it would end running tasks"}}, deferredCauses(kept))
	}
}
