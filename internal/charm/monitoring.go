package charm

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

// charmName is the name in metadata.yaml.
const charmName = "concourse-ci-machine"

// publishMonitoring publishes the addresses of the exporters with their alerts and
// dashboards, and requests a receiver of traces. It sets differences only. Every hook calls
// it, so that no event decides what is published (D56).
func (c *Charm) publishMonitoring(ctx context.Context, d Decision) error {
	w := d.Facts.Watchers
	if w.Tracing != nil && w.Leader {
		if err := c.setAppDatabag(ctx, w.Tracing.ID, w.Tracing.OwnApp, relation.TracingRequest()); err != nil {
			return err
		}
	}
	if len(w.Monitoring)+len(w.COSAgent) == 0 {
		return nil
	}
	bags, err := c.monitoringDatabags(w, d)
	if err != nil {
		return jujuerrors.Annotate(err, "cannot write the data for monitoring")
	}
	for _, m := range w.Monitoring {
		if err := c.setUnitKeys(ctx, m.ID, m.Own, bags.unit, relation.ScrapeUnitKeys()); err != nil {
			return err
		}
		if !w.Leader {
			continue
		}
		if err := c.setAppKeys(ctx, m.ID, m.OwnApp, bags.app, relation.ScrapeAppKeys()); err != nil {
			return err
		}
	}
	for _, a := range w.COSAgent {
		if bags.silent && a.Own[relation.COSAgentKey] == "" {
			continue // it was never published, so there is nothing to withdraw
		}
		if err := c.setUnitKeys(ctx, a.ID, a.Own, bags.agent, []string{relation.COSAgentKey}); err != nil {
			return err
		}
	}
	return nil
}

// monitoringDatabags holds the desired databags for monitoring.
type monitoringDatabags struct {
	unit, app, agent map[string]string
	silent           bool // no unit of the application has an exporter
}

// webJobs returns the jobs of a web with enable-metrics.
func webJobs(host string) []relation.Job {
	return []relation.Job{{Name: "concourse", Port: wellknown.WebMetricsPort, Host: host},
		{Name: "concourse-exporter", Port: wellknown.JobsPort, Host: host}}
}

// ruleFile names a file with alerts of one kind of exporter.
type ruleFile struct {
	name   string
	wanted bool
}

// rules reads the wanted files of a folder as documents of one YAML text.
func (c *Charm) rules(folder string, files ...ruleFile) (rules []byte, err error) {
	for _, file := range files {
		if !file.wanted {
			continue
		}
		data, err := os.ReadFile(filepath.Join(c.CharmDir, "src", folder, file.name))
		if err != nil {
			return nil, err
		}
		rules = slices.Concat(rules, []byte("---\n"), data)
	}
	return rules, nil
}

// monitoringDatabags returns the desired databags. Whether any unit may have an exporter follows
// from the configuration, which is the same in all units. The jobs of cos_agent follow from
// the exporters of this unit.
func (c *Charm) monitoringDatabags(w model.Watchers, d Decision) (b monitoringDatabags, err error) {
	cfg := d.Config
	workers := cfg.Mode != config.ModeWeb
	gpus := workers && cfg.GPU.ComputeRuntime != config.RuntimeNone
	exporters := gpus || workers && cfg.Worker.TaskRecordSize > 0
	webs := cfg.Mode != config.ModeWorker && cfg.Web.EnableMetrics
	if b.silent = !exporters && !webs; b.silent {
		b.agent, err = relation.NoCOSAgent()
		return b, err
	}
	var rules []byte
	var all, here []relation.Job
	if exporters {
		all = append(all, relation.ExporterJob())
	}
	rules, err = c.rules("prometheus_alert_rules", ruleFile{"amd-alerts.yaml", exporters},
		ruleFile{"concourse-alerts.yaml", webs}, ruleFile{"concourse-usage.yaml", webs})
	if err != nil {
		return b, err
	}
	switch {
	case webs && cfg.Mode == config.ModeWeb:
		all = append(all, webJobs("")...)
	case webs && d.Want.Web.Jobs && w.Address != "": // with mode=auto only the leader is a web
		all = append(all, webJobs(w.Address)...)
	}
	if d.Want.Worker.Exporter {
		here = append(here, relation.ExporterJob())
	}
	if d.Want.Web.Jobs {
		here = append(here, webJobs("")...)
	}
	t := relation.Topology{Model: c.Event.ModelName, ModelUUID: c.Event.ModelUUID, App: c.Event.App(),
		Unit: c.Event.Unit, Charm: charmName, FleetPage: role.FleetPage(d.Facts, cfg.Web)}
	if d.Want.Worker.Exporter || d.Want.Web.Jobs && cfg.Mode == config.ModeWeb {
		b.unit = relation.ScrapeUnit(c.Event.Unit, w.Address)
	}
	if w.Leader {
		if b.app, err = relation.ScrapeApp(t, rules, all); err != nil {
			return b, err
		}
	}
	if len(w.COSAgent) == 0 {
		return b, nil
	}
	var boards []relation.Dashboard
	for _, board := range []struct {
		name   string
		wanted bool
	}{{"amd-gpu.json", gpus}, {"concourse.json", webs}} {
		if !board.wanted {
			continue
		}
		d := relation.Dashboard{Path: "src/grafana_dashboards/" + board.name}
		if d.JSON, err = os.ReadFile(filepath.Join(c.CharmDir, d.Path)); err != nil {
			return b, err
		}
		boards = append(boards, d)
	}
	logs, err := c.rules("loki_alert_rules", ruleFile{"amd-logs.yaml", gpus},
		ruleFile{"concourse-logs.yaml", webs}, ruleFile{"charm-logs.yaml", true})
	if err != nil {
		return b, err
	}
	b.agent, err = relation.COSAgent(t, rules, logs, boards, here)
	return b, err
}
