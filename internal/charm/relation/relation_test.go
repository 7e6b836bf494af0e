package relation

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

var topology = Topology{Model: "ci", ModelUUID: "f47ac10b-58cc-4372-a567-0e02b2c3d479", App: "gpu-worker", Unit: "gpu-worker/1", Charm: "concourse-ci-machine"}

func rules(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/rules.yaml")
	require.NoError(t, err)
	return data
}

func logs(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/logrules.yaml")
	require.NoError(t, err)
	return data
}

// shown is a bag as a golden: one key after the other, JSON indented.
func shown(t *testing.T, bag map[string]string) string {
	t.Helper()
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(bag)) {
		value := bag[key]
		if strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[{") {
			var out bytes.Buffer
			require.NoError(t, json.Indent(&out, []byte(value), "", "  "))
			value = out.String()
		}
		fmt.Fprintf(&b, "%s: %s\n", key, value)
	}
	return b.String()
}

func TestDatabagsMatchTheLibraries(t *testing.T) {
	app, err := ScrapeApp(topology, rules(t), []Job{ExporterJob()})
	require.NoError(t, err)
	require.ElementsMatch(t, ScrapeAppKeys(), slices.Collect(maps.Keys(app)))
	hosttest.Golden(t, "testdata/scrape-app.golden", shown(t, app))

	unit := ScrapeUnit("gpu-worker/1", "10.0.0.5")
	require.ElementsMatch(t, ScrapeUnitKeys(), slices.Collect(maps.Keys(unit)))
	hosttest.Golden(t, "testdata/scrape-unit.golden", shown(t, unit))

	agent, err := COSAgent(topology, rules(t), logs(t), []Dashboard{{"src/grafana_dashboards/x.json", []byte(`{"title": "X <1>", "tags": ["gpu"]}`)}}, []Job{ExporterJob()})
	require.NoError(t, err)
	hosttest.Golden(t, "testdata/cos-agent.golden", shown(t, agent))
	none, err := NoCOSAgent()
	require.NoError(t, err)
	hosttest.Golden(t, "testdata/cos-agent-none.golden", shown(t, none))
}

func TestDatabagsAreDeterministic(t *testing.T) {
	for range 20 {
		a, err := ScrapeApp(topology, rules(t), []Job{ExporterJob()})
		require.NoError(t, err)
		b, err := ScrapeApp(topology, rules(t), []Job{ExporterJob()})
		require.NoError(t, err)
		require.Equal(t, a, b, "a bag that differs wakes the other side")
	}
}

// D55: the predecessor advertised a port that nothing listened on.
func TestD55UnitWithoutExporterIsNotATarget(t *testing.T) {
	require.Empty(t, ScrapeUnit("gpu-worker/1", ""))
	agent, err := COSAgent(topology, rules(t), nil, nil, nil)
	require.NoError(t, err)
	var bag agentData
	require.NoError(t, json.Unmarshal([]byte(agent[COSAgentKey]), &bag))
	require.Empty(t, bag.Jobs)
	require.Len(t, bag.MetricsRules.Groups, 2, "they are the application's, and taken from any unit")
}

func TestIPv6AddressHasBrackets(t *testing.T) {
	require.Equal(t, "[fd00::1]", ScrapeUnit("a/0", "fd00::1")["prometheus_scrape_unit_address"])
}

func TestOnlyDifferencesAreSet(t *testing.T) {
	keys := []string{"a", "b", "c"}
	own := map[string]string{"a": "1", "b": "2", "ingress-address": "10.0.0.5"}
	require.Equal(t, map[string]string{"b": "3", "c": "4"}, Changes(own, map[string]string{"a": "1", "b": "3", "c": "4"}, keys))
	require.Equal(t, map[string]string{"a": "", "b": ""}, Changes(own, nil, keys), "Juju's own keys stay")
	require.Empty(t, Changes(own, map[string]string{"a": "1", "b": "2", "c": ""}, keys))
}

func TestErrorsNameDamagedFiles(t *testing.T) {
	_, err := ScrapeApp(topology, []byte("groups: [{name: x, rulez: []}]"), nil)
	require.ErrorContains(t, err, "cannot read the alert rules: ")
	require.ErrorContains(t, err, "rulez")
	_, err = COSAgent(topology, nil, []byte("groups: [{name: x, rulez: []}]"), nil, nil)
	require.ErrorContains(t, err, "rulez")
	_, err = COSAgent(topology, rules(t), logs(t), []Dashboard{{"src/x.json", []byte("{")}}, []Job{ExporterJob()})
	require.ErrorContains(t, err, "cannot read dashboard src/x.json: ")
}

// The value is from cosl's DashboardPath40UID.generate, with Python's hashlib.
func TestDashboardUIDMatchesTheLibrary(t *testing.T) {
	require.Equal(t, "437bb8a6bf565c7128c08c5a7469d758f51929f8", dashboardUID("concourse-ci-machine", "src/grafana_dashboards/amd-gpu.json"))
}

func TestPackedDashboardsUnpackUnchanged(t *testing.T) {
	packed, err := Dashboard{"x.json", []byte(`{"title": "X", "tags": ["gpu"]}`)}.pack("c")
	require.NoError(t, err)
	data, err := base64.StdEncoding.DecodeString(packed)
	require.NoError(t, err)
	require.JSONEq(t, `{"title": "X", "tags": ["gpu", "charm: c"], "uid": "`+dashboardUID("c", "x.json")+`"}`, unpack(t, data))
}

// Recorded from cosl. Only the labels of the owner differ. The library would label this
// application, which no log stream of a machine has. The agent adds its own labels.
func TestLogRulesMatchTheLibraryWithoutApplicationLabels(t *testing.T) {
	var recorded struct{ Library, Agent ruleGroups }
	data, err := os.ReadFile("testdata/cosl-logs.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &recorded))
	agent, err := COSAgent(topology, nil, logs(t), nil, nil)
	require.NoError(t, err)
	var bag agentData
	require.NoError(t, json.Unmarshal([]byte(agent[COSAgentKey]), &bag))
	ours := ruleGroups(bag.LogRules)
	for _, reader := range []struct {
		rules            ruleGroups
		app, charm, hook string
	}{{recorded.Library, "gpu-worker", "concourse-ci-machine", "%%juju_application%%"}, {recorded.Agent, "opentelemetry-collector", "opentelemetry-collector", "gpu-worker"}} {
		reset, hook := &reader.rules.Groups[0].Rules[0], &reader.rules.Groups[0].Rules[1]
		require.Equal(t, reader.app, reset.Labels["juju_application"])
		require.Equal(t, reader.charm, reset.Labels["juju_charm"])
		require.Equal(t, "own", hook.Labels["juju_application"])
		delete(reset.Labels, "juju_application")
		delete(reset.Labels, "juju_charm")
		delete(hook.Labels, "juju_charm")
		require.Contains(t, hook.Expr, reader.hook)
		hook.Expr = strings.ReplaceAll(hook.Expr, reader.hook, "gpu-worker")
		require.Equal(t, ours, reader.rules)
	}
}

// Without rules the application is left out, so that the other side deletes its file.
func TestNoLogRulesAreAnEmptyValue(t *testing.T) {
	none, err := NoCOSAgent()
	require.NoError(t, err)
	require.Contains(t, none[COSAgentKey], `"log_alert_rules":{}`)
	bare, err := COSAgent(topology, rules(t), nil, nil, nil)
	require.NoError(t, err)
	require.Contains(t, bare[COSAgentKey], `"log_alert_rules":{}`)
}
