//go:build e2e

package prometheus

import (
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	boards         = "../../src/grafana_dashboards/"
	dashboardFile  = boards + "amd-gpu.json"
	concourseBoard = boards + "concourse.json"
)

type query struct{ panel, expr, legend string }

// panel is a panel of a dashboard. A folded row has its panels in itself.
type panel struct {
	Type, Title string
	Collapsed   bool
	Panels      []panel
	Targets     []struct{ Expr, LegendFormat string }
}

// queries returns the queries of the panels and annotations as Grafana sends them, with every
// variable at All, and those that give the variables their values.
func queries(t *testing.T, file string) (panels []query, variables map[string]query) {
	t.Helper()
	var d struct {
		Panels      []panel
		Annotations struct{ List []struct{ Name, Expr string } }
		Templating  struct {
			List []struct{ Type, Name, Definition, AllValue string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(readFile(t, file)), &d))
	all := []string{"$__rate_interval", "1m", "$__range", "1m", "$juju_model_uuid/$juju_application", ".*/.*"}
	variables = map[string]query{}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			require.Equal(t, ".*", v.AllValue, v.Name)
			all = append(all, `"$`+v.Name+`"`, `".*"`)
			m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Definition)
			require.NotNil(t, m, v.Definition)
			variables[m[2]] = query{"$" + v.Name, m[1], ""}
		}
	}
	grafana := strings.NewReplacer(all...)
	for label, v := range variables {
		variables[label] = query{v.panel, grafana.Replace(v.expr), ""}
	}
	for _, a := range d.Annotations.List {
		if !strings.HasPrefix(a.Expr, "ALERTS") { // most machines have none
			panels = append(panels, query{a.Name, grafana.Replace(a.Expr), ""})
		}
	}
	add := func(p panel) {
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, target := range p.Targets {
			expr := grafana.Replace(target.Expr)
			require.NotContains(t, strings.ReplaceAll(expr, `"$1"`, ""), "$", "%s: a variable without a value", p.Title)
			panels = append(panels, query{p.Title, expr, target.LegendFormat})
		}
	}
	for i, p := range d.Panels {
		add(p)
		require.Equal(t, i > 0 && p.Type == "row", p.Collapsed, "only the first row is open: %s", p.Title)
		require.Equal(t, p.Collapsed, len(p.Panels) > 0, p.Title)
		for _, folded := range p.Panels {
			add(folded)
		}
	}
	require.NotEmpty(t, panels)
	return panels, variables
}

// statusPage is the URL of the page of one host. The other hosts have none.
const statusPage = "http://10.0.0.11:9401/"

// watched is a Prometheus over every fixture host, and one with what these lack.
func watched(t *testing.T) (*server, host.Root) {
	t.Helper()
	need(t, "prometheus")
	bin := buildExporter(t)
	busy := everything(t)
	units := []unit{{"rocm-exporter", "everything", exporter(t, bin, string(busy), "--web.external-url="+statusPage)}}
	for _, name := range hosttest.HostNames() {
		units = append(units, unit{"rocm-exporter", name, exporter(t, bin, string(hosttest.Host(t, name)))})
	}
	return start(t, units), busy
}

// answersAll asks each panel's query until it has data, with the labels of its legend.
func (s *server) answersAll(t *testing.T, panels []query) {
	for _, q := range panels {
		t.Run(q.panel, func(t *testing.T) {
			at := *s
			at.t = t
			at.until(func() bool { return len(at.query(q.expr)) > 0 }, "no data: %s", q.expr)
			for _, r := range at.query(q.expr) {
				require.NotEqual(t, "NaN", r.Value[1], "%s: %v", q.expr, r.Metric)
			}
			for _, m := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.legend, -1) {
				named := slices.ContainsFunc(at.query(q.expr), func(r sample) bool { return r.Metric[m[1]] != "" })
				require.True(t, named, "%s: no series has the label %s of the legend", q.expr, m[1])
			}
		})
	}
}

func (s *server) offers(variables map[string]query) {
	s.t.Helper()
	for label, v := range variables {
		var values []string
		s.get("/api/v1/label/"+label+"/values", url.Values{"match[]": {v.expr}}, &values)
		require.NotEmpty(s.t, values, v.panel)
	}
}

// tableOf returns the queries of the table of GPUs.
func tableOf(panels []query) []query {
	return slices.DeleteFunc(slices.Clone(panels), func(q query) bool { return q.panel != "GPUs" || !strings.HasPrefix(q.expr, "max by") })
}

func TestDashboardAndRulesOnARealPrometheus(t *testing.T) {
	panels, variables := queries(t, dashboardFile)
	s, busy := watched(t)
	hosts := len(hosttest.HostNames()) + 1
	s.until(func() bool { return len(s.query("up == 1")) == hosts }, "not every exporter is scraped: %v", s.query("up"))

	t.Run("every query of the dashboard returns data", func(t *testing.T) {
		s.answersAll(t, panels)
	})
	t.Run("every variable has values to choose from", func(t *testing.T) { s.offers(variables) })
	table := tableOf(panels)
	t.Run("the table of GPUs has a line for each", func(t *testing.T) {
		require.Len(t, s.query(table[0].expr), len(s.query("rocm_gpu_info")), "each partition has the state of its GPU")
	})
	t.Run("the table links each GPU to the status page of its worker", func(t *testing.T) {
		linked := s.query(table[len(table)-1].expr)
		require.Len(t, linked, len(s.query(`rocm_gpu_info{juju_unit="everything/0"}`)), "only one host has a page")
		for _, r := range linked {
			require.Equal(t, statusPage, r.Metric["url"])
		}
	})
	t.Run("the lines of the table's queries can be joined", func(t *testing.T) {
		for _, q := range table { // Grafana joins lines by the labels that all queries have
			for _, r := range s.query(q.expr) {
				require.Subset(t, slices.Collect(maps.Keys(r.Metric)), []string{"juju_unit", "gpu", "pci_bus_id"}, q.expr)
			}
		}
	})
	t.Run("every rule is evaluated without an error", func(t *testing.T) {
		type rule struct{ Name, Health, LastError string }
		s.until(func() bool {
			var data struct{ Groups []struct{ Rules []rule } }
			s.get("/api/v1/rules", nil, &data)
			require.Len(t, data.Groups, 5)
			known := true
			for _, g := range data.Groups {
				for _, r := range g.Rules {
					require.NotEqual(t, "err", r.Health, "%s: %s", r.Name, r.LastError)
					known = known && r.Health == "ok"
				}
			}
			return known
		}, "not every rule was evaluated")
	})
	t.Run("an error that the GPU counts fires", func(t *testing.T) {
		fires := `ALERTS{alertname="AMDGPUMemoryError",alertstate="firing"}`
		s.until(func() bool { return len(s.query(fires)) == 1 }, "an error stands until the driver is loaded again: %v", s.query(fires))
		fires = `ALERTS{alertname="AMDGPUMemoryError",alertstate="firing",juju_unit="everything/0"}`
		require.Empty(t, s.query(fires), "it has had none")
		require.NoError(t, busy.WriteFile(busyGPU+"ras/umc_err_count", []byte("ue: 1000\nce: 0\n"), 0o644))
		s.until(func() bool { return len(s.query(fires)) > 0 }, "no alert")
		alert := s.query(fires)[0].Metric
		require.Equal(t, "everything/0", alert["juju_unit"])
		require.Equal(t, "0000:0a:00.0", alert["pci_bus_id"])
		require.Equal(t, "critical", alert["severity"])
	})
}
