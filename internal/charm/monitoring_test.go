package charm

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// monitoringHook publishes as in one hook, commits it like Juju, and returns the calls.
func monitoringHook(t *testing.T, m *jujutest.Model, e juju.Event, exporter bool) *jujutest.Context {
	t.Helper()
	return publishedFor(t, m, e, Desired{Worker: worker.Worker{Exporter: exporter}})
}

// publishedFor works like monitoringHook for a desired state.
func publishedFor(t *testing.T, m *jujutest.Model, e juju.Event, want Desired) *jujutest.Context {
	t.Helper()
	ctx := m.Begin(e)
	c := charmOf(t, hosttest.Root(t), m, ctx, nil)
	facts, err := model.Observe(t.Context(), c.Tools, c.Event, model.Facts{Unit: m.Unit}, true, hosttest.Now)
	require.NoError(t, err)
	cfg, _ := facts.Options()
	require.NoError(t, c.publishMonitoring(t.Context(),
		Decision{Facts: facts, Config: cfg, Want: want}))
	require.NoError(t, ctx.Commit())
	return ctx
}

func watched(t *testing.T) (m *jujutest.Model, scrape, agent *jujutest.Relation) {
	t.Helper()
	m = jujutest.New("gpu-worker/0")
	m.CharmDir = hosttest.CharmDir(t)
	m.Config = map[string]any{"mode": "worker", "compute-runtime": "rocm"}
	return m, m.Relate(8, "monitoring", "prometheus"), m.Relate(9, "cos-agent", "grafana-agent")
}

var update = jujutest.Hook("update-status")

func jobs(t *testing.T, agent *jujutest.Relation) []any {
	t.Helper()
	var bag map[string]any
	require.NoError(t, json.Unmarshal([]byte(agent.Local["config"]), &bag))
	return bag["metrics_scrape_jobs"].([]any)
}

// unitDatabag returns the unit's databag without the addresses that Juju adds.
func unitDatabag(r *jujutest.Relation) map[string]string {
	bag := maps.Clone(r.Local)
	for _, key := range []string{"egress-subnets", "ingress-address", "private-address"} {
		delete(bag, key)
	}
	return bag
}

func TestMonitoringIsPublishedOnceInAnyHook(t *testing.T) {
	m, scrape, agent := watched(t)
	first := monitoringHook(t, m, update, true)
	require.Len(t, first.Called("relation-set"), 3)
	require.Equal(t, map[string]string{"prometheus_scrape_unit_address": "10.0.0.5", "prometheus_scrape_unit_name": "gpu-worker/0"}, unitDatabag(scrape))
	require.JSONEq(t, `[{"job_name": "rocm-exporter", "metrics_path": "/metrics", "static_configs": [{"targets": ["*:9401"]}]}]`, scrape.LocalApp["scrape_jobs"])
	require.JSONEq(t, `{"model": "test", "model_uuid": "f47ac10b-58cc-4372-a567-0e02b2c3d479", "application": "gpu-worker",
		"unit": "gpu-worker/0", "charm_name": "concourse-ci-machine"}`, scrape.LocalApp["scrape_metadata"])
	require.Contains(t, scrape.LocalApp["alert_rules"], `"alert":"AMDGPUHang"`)
	require.Len(t, jobs(t, agent), 1)
	require.Empty(t, agent.LocalApp)
	require.Empty(t, monitoringHook(t, m, update, true).Called("relation-set"), "nothing is new")
}

// Like rules for metrics, rules for logs depend on the mode and the GPUs. Only the name of a
// unit's log contains the application.
func TestLogRulesMatchTheExportersOfTheApplication(t *testing.T) {
	for name, c := range map[string]struct {
		config       map[string]any
		told, untold []string
	}{
		"worker":           {map[string]any{"mode": "worker", "compute-runtime": "rocm"}, []string{"AMDGPUPageFault", "ConcourseHookFailed"}, []string{"ConcoursePanicked"}},
		"web":              {map[string]any{"mode": "web", "enable-metrics": true}, []string{"ConcoursePanicked", "ConcourseHookFailed"}, []string{"AMDGPUPageFault", "ConcourseTaskRefused"}},
		"web and its GPUs": {map[string]any{"mode": "auto", "compute-runtime": "rocm", "enable-metrics": true}, []string{"AMDGPUPageFault", "ConcoursePanicked"}, nil},
	} {
		m, scrape, agent := watched(t)
		m.Config = c.config
		monitoringHook(t, m, update, false)
		for _, alert := range c.told {
			require.Contains(t, agent.Local["config"], `"alert":"`+alert+`"`, name)
		}
		for _, alert := range c.untold {
			require.NotContains(t, agent.Local["config"], alert, name)
		}
		require.Contains(t, agent.Local["config"], "/unit-gpu-worker-[0-9]+", name)
		require.NotContains(t, scrape.LocalApp["alert_rules"], "ConcourseHookFailed", name)
	}
}

// D56: the predecessor forgot its exporter's job in relation-joined.
func TestD56RelationHooksPublishTheSame(t *testing.T) {
	for _, kind := range []string{"created", "joined", "changed"} {
		m, scrape, agent := watched(t)
		remote := "prometheus/0"
		if kind == "created" {
			remote = ""
		} else {
			scrape.Units = map[string]map[string]string{remote: {}}
		}
		monitoringHook(t, m, jujutest.RelationHook(scrape, kind, remote), true)
		require.Contains(t, scrape.LocalApp["scrape_jobs"], "9401", kind)
		require.Len(t, jobs(t, agent), 1, kind)
	}
}

// D55: the predecessor advertised exporters that did not run.
func TestD55OnlyRunningExportersAreAdvertised(t *testing.T) {
	m, scrape, agent := watched(t)
	monitoringHook(t, m, update, true)
	monitoringHook(t, m, update, false)
	require.Empty(t, unitDatabag(scrape), "the wildcard has no target here")
	require.Contains(t, scrape.LocalApp["scrape_jobs"], "9401", "other units may have GPUs")
	require.Empty(t, jobs(t, agent))
	require.Contains(t, agent.Local["config"], "AMDGPUHang", "rules are taken from any unit")

	monitoringHook(t, m, update, true)
	m.Config["compute-runtime"] = "none"
	monitoringHook(t, m, update, true)
	require.Contains(t, scrape.LocalApp["scrape_jobs"], "9401", "a worker without GPUs has verdicts on its tasks")
	require.Contains(t, agent.Local["config"], "ConcourseInfrastructureFailsBuilds")
	require.Contains(t, agent.Local["config"], `"dashboards":[]`)
	m.Config["task-record-size"] = 0
	monitoringHook(t, m, update, false)
	require.Empty(t, unitDatabag(scrape))
	require.Empty(t, scrape.LocalApp)
	require.NotContains(t, agent.Local["config"], "AMDGPU")
	require.Contains(t, agent.Local["config"], `"log_alert_rules":{}`)
	require.Contains(t, agent.Local["config"], `"dashboards":[]`, "the other side keeps what it is not told otherwise")
	require.Empty(t, monitoringHook(t, m, update, false).Called("relation-set"))
}

func TestUnitWithoutAnExporterPublishesNothing(t *testing.T) {
	m, scrape, agent := watched(t)
	m.Config["compute-runtime"], m.Config["task-record-size"] = "none", 0
	require.Empty(t, monitoringHook(t, m, update, false).Called("relation-set"))
	require.Empty(t, unitDatabag(scrape))
	require.Empty(t, unitDatabag(agent))
}

func TestOnlyTheLeaderWritesTheApplicationsDatabag(t *testing.T) {
	m, scrape, _ := watched(t)
	m.Leader = false
	monitoringHook(t, m, update, true)
	require.Empty(t, scrape.LocalApp)
	require.NotEmpty(t, unitDatabag(scrape))
	m.Leader = true
	monitoringHook(t, m, jujutest.Hook("leader-elected"), true)
	require.NotEmpty(t, scrape.LocalApp)
}

func TestUnitWithoutMonitoringRunsFourHookTools(t *testing.T) {
	m, _, _ := watched(t)
	m.Relations = nil
	m.CharmDir = t.TempDir() // nor does it read a file
	ctx := monitoringHook(t, m, update, true)
	require.Equal(t, []string{"--format=json flight", "--format=json monitoring", "--format=json tracing", "--format=json cos-agent", "--format=json receive-ca-certs"}, ctx.Called("relation-ids"))
	require.Empty(t, ctx.Called("is-leader"))
	require.Empty(t, ctx.Called("network-get"))
}

// The leader asks for the application; every unit reads the answer.
func TestReceiverOfTracesIsRequestedOnce(t *testing.T) {
	m, _, _ := watched(t)
	m.Relations = nil
	r := m.Relate(10, "tracing", "tempo")
	m.Leader = false
	monitoringHook(t, m, update, true)
	require.Empty(t, r.LocalApp)
	m.Leader = true
	monitoringHook(t, m, update, true)
	require.Equal(t, map[string]string{"receivers": `["otlp_grpc", "otlp_http"]`}, r.LocalApp)
	require.Empty(t, monitoringHook(t, m, update, true).Called("relation-set"), "nothing is new")
	monitoringHook(t, m, jujutest.RelationHook(r, "broken", ""), true)
}

func TestOnlyMonitoringNeedsALeader(t *testing.T) {
	m, _, agent := watched(t)
	m.Relations = []*jujutest.Relation{agent}
	ctx := monitoringHook(t, m, update, true)
	require.Empty(t, ctx.Called("is-leader"))
	require.Len(t, jobs(t, agent), 1)
}

// In mode web each unit is a web. In mode auto only the leader is one.
func TestJobsOfWebsHaveTheWebsAsTargets(t *testing.T) {
	const own, ofLeader = `["*:9391"]`, `["10.0.0.5:9391"]`
	for name, c := range map[string]struct {
		config  map[string]any
		jobs    bool
		address string
		want    []string
	}{
		"web":                    {map[string]any{"mode": "web", "enable-metrics": true}, true, "10.0.0.5", []string{own}},
		"web, not ready":         {map[string]any{"mode": "web", "enable-metrics": true}, false, "10.0.0.5", []string{own}},
		"auto":                   {map[string]any{"mode": "auto", "enable-metrics": true}, true, "10.0.0.5", []string{ofLeader}},
		"auto, not ready":        {map[string]any{"mode": "auto", "enable-metrics": true}, false, "10.0.0.5", nil},
		"auto without a network": {map[string]any{"mode": "auto", "enable-metrics": true}, true, "", nil},
		"auto without metrics":   {map[string]any{"mode": "auto", "enable-metrics": false}, false, "10.0.0.5", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, scrape, _ := watched(t)
			m.Config, m.Address = c.config, c.address
			publishedFor(t, m, update, Desired{Web: web.Web{Jobs: c.jobs}})
			got := scrape.LocalApp["scrape_jobs"]
			require.Equal(t, len(c.want), strings.Count(got, `"job_name":"concourse"`), got)
			for _, targets := range c.want {
				require.Contains(t, got, `"targets":`+targets)
			}
		})
	}
}

func TestUnitWithoutNetworkIsNotATarget(t *testing.T) {
	m, scrape, agent := watched(t)
	m.Address = ""
	monitoringHook(t, m, update, true)
	require.Empty(t, unitDatabag(scrape))
	require.Len(t, jobs(t, agent), 1, "the agent is on the same machine")
	m.Address = "10.0.0.6"
	monitoringHook(t, m, update, true)
	require.Equal(t, "10.0.0.6", scrape.Local["prometheus_scrape_unit_address"])
}

func TestBrokenRelationIsNotWritten(t *testing.T) {
	m, scrape, agent := watched(t)
	monitoringHook(t, m, jujutest.RelationHook(scrape, "broken", ""), true)
	require.Empty(t, unitDatabag(scrape))
	require.NotEmpty(t, unitDatabag(agent))
}

func TestCharmNameEqualsTheMetadata(t *testing.T) {
	data, err := os.ReadFile("../../metadata.yaml")
	require.NoError(t, err)
	var meta struct{ Name string }
	require.NoError(t, yaml.Unmarshal(data, &meta))
	require.Equal(t, meta.Name, charmName)
}

// Alerts of workers are about GPUs, and the page of all GPUs is on the web.
func TestAlertsNameTheFleetPage(t *testing.T) {
	m, scrape, agent := watched(t)
	monitoringHook(t, m, update, true)
	require.NotContains(t, scrape.LocalApp["alert_rules"], "fleet_url", "no web has published a page")
	flight := m.Relate(10, "flight", "web")
	flight.Units = map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222", "fleet-page": "http://10.0.0.2:9358/",
		"tsa-public-key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"}}
	monitoringHook(t, m, update, true)
	for _, bag := range []string{scrape.LocalApp["alert_rules"], agent.Local["config"]} {
		alerts := strings.Count(bag, `"alert":`)
		require.Positive(t, alerts)
		require.Equal(t, alerts, strings.Count(bag, `"fleet_url":"http://10.0.0.2:9358/"`))
	}
}
