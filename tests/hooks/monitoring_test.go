package hooks

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// D55, D56: what is advertised follows the exporter, whatever the hook, and is
// the same in a relation's own hooks.
func TestD55D56WatchersGetTheExportersAddress(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("amd"), options{"compute-runtime": "rocm"})
	scrape := u.Model.Relate(8, "monitoring", "prometheus")
	scrape.Units = map[string]map[string]string{"prometheus/0": {}}
	agent := u.Model.Relate(9, "cos-agent", "grafana-agent")
	agent.Units = map[string]map[string]string{"grafana-agent/0": {}}
	hook := func(relation int, kind, remote string) sandbox.Result {
		r, err := u.RelationHook(u.Model.Relations[relation], kind, remote)
		return u.fine(kind, r, err)
	}
	hook(1, "joined", "prometheus/0")
	scrape, agent = u.Model.Relations[1], u.Model.Relations[2]
	require.Equal(t, u.Model.Address, scrape.Local["prometheus_scrape_unit_address"])
	require.Contains(t, scrape.LocalApp["scrape_jobs"], `"*:9401"`)
	require.Contains(t, scrape.LocalApp["alert_rules"], "AMDGPUMemoryError")
	var bag struct {
		Dashboards []string
		Jobs       []any `json:"metrics_scrape_jobs"`
	}
	require.NoError(t, json.Unmarshal([]byte(agent.Local["config"]), &bag))
	require.Contains(t, agent.Local["config"], "AMDGPUPageFault")
	require.Len(t, bag.Dashboards, 1)
	require.Len(t, bag.Jobs, 1)
	for _, again := range []func() sandbox.Result{
		func() sandbox.Result { return hook(1, "changed", "prometheus/0") },
		func() sandbox.Result { return hook(2, "joined", "grafana-agent/0") },
		func() sandbox.Result { return u.hook("update-status") },
	} {
		for _, call := range again().Calls {
			require.NotContains(t, call, "relation-set", "nothing is new")
		}
	}
	u.set(options{"compute-runtime": "none"}) // the exporter shows its tasks
	u.hook("config-changed")
	require.Equal(t, u.Model.Address, u.Model.Relations[1].Local["prometheus_scrape_unit_address"])
	u.set(options{"compute-runtime": "cuda", "task-record-size": 0}) // of which this unit has none; others may
	u.hook("config-changed")
	scrape = u.Model.Relations[1]
	require.NotContains(t, scrape.Local, "prometheus_scrape_unit_address")
	require.Contains(t, scrape.LocalApp["alert_rules"], "AMDGPUMemoryError")
	u.set(options{"compute-runtime": "none"})
	u.hook("config-changed")
	scrape, agent = u.Model.Relations[1], u.Model.Relations[2]
	require.NotContains(t, scrape.Local, "prometheus_scrape_unit_address")
	require.Empty(t, scrape.LocalApp)
	require.NotContains(t, agent.Local["config"], "9401")
	require.NotContains(t, agent.Local["config"], "AMDGPUPageFault")
}
