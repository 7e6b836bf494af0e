package loki

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/dskit/user"
	"github.com/grafana/loki/v3/pkg/logproto"
	"github.com/grafana/loki/v3/pkg/logql"
	"github.com/grafana/loki/v3/pkg/logql/syntax"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
)

const folder = "../../src/loki_alert_rules/"

var topology = relation.Topology{Model: "ci", ModelUUID: "f47ac10b-58cc-4372-a567-0e02b2c3d479", App: "rocm-worker", Unit: "rocm-worker/0", Charm: "concourse-ci-machine"}

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// shipped are the files' text, in one.
func shipped(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(folder + "*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	var text strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		text.WriteString("---\n" + string(data))
	}
	return text.String()
}

// evaluated are rules as Loki has them in the end: published by the charm, then given the
// labels of the agent's own application if they have none, and narrowed down by model and
// application. cos_agent's reader, cosl's Rules and loki_push_api do that, by cos-tool,
// which parses an expression with Loki's parser and appends matchers to each selector.
func evaluated(t *testing.T, text, agent string) map[string]rule {
	t.Helper()
	bag, err := relation.COSAgent(topology, nil, []byte(text), nil, nil)
	require.NoError(t, err)
	var told struct {
		Logs struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		} `json:"log_alert_rules"`
	}
	require.NoError(t, json.Unmarshal([]byte(bag[relation.COSAgentKey]), &told))
	out := map[string]rule{}
	for _, g := range told.Logs.Groups {
		for _, r := range g.Rules {
			for name, value := range map[string]string{"juju_application": agent, "juju_charm": agent} {
				if r.Labels[name] == "" {
					r.Labels[name] = value
				}
			}
			r.Expr = narrowed(t, r)
			require.NotContains(t, out, r.Alert)
			out[r.Alert] = r
		}
	}
	return out
}

// narrowed also has juju_charm, as loki_push_api had it until June 2026.
func narrowed(t *testing.T, r rule) string {
	t.Helper()
	expr, err := syntax.ParseExpr(r.Expr)
	require.NoError(t, err, r.Alert)
	selectors := 0
	expr.Walk(func(e syntax.Expr) {
		if m, ok := e.(*syntax.MatchersExpr); ok {
			selectors++
			for _, name := range []string{"juju_application", "juju_charm", "juju_model", "juju_model_uuid"} {
				m.AppendMatchers([]*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, name, r.Labels[name])})
			}
		}
	})
	require.Equal(t, 1, selectors, r.Alert)
	return expr.String()
}

// streams are the ways by which a line reaches Loki: what the agents' charms configure
// (grafana-agent-operator's _additional_log_configs, opentelemetry-collector-operator's
// filelog/var-log), each with the agent's own topology and, of the collector, no unit.
func streams(agent, file string) (out []map[string]string) {
	labels := func(more map[string]string) map[string]string {
		more["juju_application"], more["juju_charm"], more["instance"] = agent, agent, "juju-0"
		more["juju_model"], more["juju_model_uuid"] = topology.Model, topology.ModelUUID
		return more
	}
	if agent == "opentelemetry-collector" {
		return append(out, labels(map[string]string{"job": "opentelemetry-collector-var-log", "filename": file, "path": filepath.Dir(file)}))
	}
	out = append(out, labels(map[string]string{"job": "varlog", "filename": file, "juju_unit": agent + "/0"}))
	if file == syslog {
		out = append(out, labels(map[string]string{"job": "syslog", "juju_unit": agent + "/0"}))
	}
	return out
}

const syslog = "/var/log/syslog"

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// fires evaluates one rule at now over lines that were written some time before.
func fires(t *testing.T, r rule, stream map[string]string, before time.Duration, lines ...string) promql.Vector {
	t.Helper()
	s := logproto.Stream{Labels: labels.FromMap(stream).String()}
	for i, line := range lines {
		s.Entries = append(s.Entries, logproto.Entry{Timestamp: now.Add(time.Duration(i)*time.Millisecond - before), Line: line})
	}
	engine := logql.NewEngine(logql.EngineOpts{}, logql.NewMockQuerier(0, []logproto.Stream{s}), logql.NoLimits, nil)
	params, err := logql.NewLiteralParams(r.Expr, now, now, 0, 0, logproto.FORWARD, 0, nil, nil)
	require.NoError(t, err, r.Alert)
	result, err := engine.Query(params).Exec(user.InjectOrgID(t.Context(), "ci"))
	require.NoError(t, err, r.Alert)
	require.Equal(t, parser.ValueTypeVector, result.Data.Type())
	return result.Data.(promql.Vector)
}

func TestRulesSpeakOfWhatTheirExpressionKeeps(t *testing.T) {
	for name, r := range evaluated(t, shipped(t), "grafana-agent") {
		e, err := syntax.ParseSampleExpr(r.Expr)
		require.NoError(t, err)
		require.Empty(t, r.For, "%s: an event is over when it is logged", name)
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], name)
		require.Contains(t, []string{"amd", "concourse"}, r.Labels["category"], name)
		require.Contains(t, r.Annotations["description"], "What to do: ", name)
		var kept []string
		e.Walk(func(x syntax.Expr) {
			if v, ok := x.(*syntax.VectorAggregationExpr); ok {
				kept = append(kept, v.Grouping.Groups...)
			}
		})
		for _, text := range r.Annotations {
			for _, part := range strings.Split(text, "{{ $labels.")[1:] {
				label, _, _ := strings.Cut(part, " }}")
				require.True(t, slices.Contains(kept, label), "%s: %s", name, label)
			}
		}
	}
}
