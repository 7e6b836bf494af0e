package charm

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

// D18: only the operator ends tasks: by removing the unit or its relation.
func TestGuardDefersStepsThatEndTasks(t *testing.T) {
	step := func(op, disrupts string) plan.Step {
		return plan.Step{Op: op, Why: "because", Disrupts: disrupts, Do: func(context.Context) error { return nil }}
	}
	all := plan.Plan{step("write x", ""), step("stop worker", role.RunningTasks), step("restart exporter", "metrics")}
	related := model.Facts{Role: model.WorkerRole, Config: map[string]any{"mode": "worker"}, Flights: []model.Relation{{ID: "flight:1"}}}
	unrelated, auto := related, related
	unrelated.Flights, auto.Config = nil, map[string]any{"mode": "auto"}
	for _, tt := range []struct {
		event  string
		facts  model.Facts
		defers bool
	}{
		{"config-changed", related, true}, {"update-status", related, true}, {"upgrade-charm", related, true}, {"start", related, true},
		{"flight-relation-departed", related, true}, {"plan-action", related, true},
		{"flight-relation-broken", related, true}, // another relation ended: this one is
		{"flight-relation-broken", unrelated, false}, {"config-changed", unrelated, false},
		{"config-changed", auto, true}, {"flight-relation-broken", auto, true}, {"peers-relation-broken", auto, false},
		{"stop", related, false}, {"remove", auto, false},
	} {
		event, defers := tt.event, tt.defers
		due, kept := guard(all, role.EndsTasks(event, tt.facts))
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
