package charm

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/relation"
)

// charmName is the charm's own name, as metadata.yaml has it.
const charmName = "concourse-ci-machine"

// tellWatchers publishes where the exporters listen, with the alerts and
// dashboards for it, and asks for a receiver of traces, differences only. It is tried in
// every hook, so that no event decides what is advertised (D56).
func (c *Charm) tellWatchers(ctx context.Context, facts model.Facts, up listening) error {
	w := facts.Watchers
	if w.Tracing != nil && w.Leader {
		if err := c.bag(ctx, w.Tracing.ID, true, w.Tracing.OwnApp, relation.TracingRequest()); err != nil {
			return err
		}
	}
	if len(w.Monitoring)+len(w.COSAgent) == 0 {
		return nil
	}
	bags, err := c.watcherBags(w, facts, up)
	if err != nil {
		return jujuerrors.Annotate(err, "cannot write what is published for monitoring")
	}
	set := func(id string, app bool, own, want map[string]string, keys []string) error {
		changes := relation.Changes(own, want, keys)
		if len(changes) == 0 {
			return nil
		}
		return jujuerrors.Annotatef(c.Tools.RelationSet(ctx, id, app, changes), "cannot publish in %s", id)
	}
	for _, m := range w.Monitoring {
		if err := set(m.ID, false, m.Own, bags.unit, relation.ScrapeUnitKeys()); err != nil {
			return err
		}
		if !w.Leader {
			continue
		}
		if err := set(m.ID, true, m.OwnApp, bags.app, relation.ScrapeAppKeys()); err != nil {
			return err
		}
	}
	for _, a := range w.COSAgent {
		if bags.silent && a.Own[relation.COSAgentKey] == "" {
			continue // it was told nothing that would have to be taken back
		}
		if err := set(a.ID, false, a.Own, bags.agent, []string{relation.COSAgentKey}); err != nil {
			return err
		}
	}
	return nil
}

// watcherBags are the bags as they should be.
type watcherBags struct {
	unit, app, agent map[string]string
	silent           bool // no unit of the application has anything to scrape
}

// listening is what is up on this unit.
type listening struct {
	GPU bool // rocm-exporter
	Web bool // the web's own metrics and concourse-exporter's
}

// webJobs are those of a web with enable-metrics.
func webJobs(host string) []relation.Job {
	return []relation.Job{{Name: "concourse", Port: wellknown.WebMetricsPort, Host: host}, {Name: "concourse-exporter", Port: wellknown.JobsPort, Host: host}}
}

// ruleFile has alerts for what the application may serve.
type ruleFile struct {
	name   string
	wanted bool
}

// rules are the files of a folder that are wanted, as the documents of one YAML text.
func (c *Charm) rules(folder string, files ...ruleFile) (rules []byte, err error) {
	for _, file := range files {
		if !file.wanted {
			continue
		}
		data, err := os.ReadFile(filepath.Join(c.CharmDir, "src", folder, file.name))
		if err != nil {
			return nil, err
		}
		rules = append(append(rules, "---\n"...), data...)
	}
	return rules, nil
}

// watcherBags decides. The configuration is the same in all units, so it tells
// whether any of them may have an exporter; only this unit's own jobs depend on
// what it has itself.
func (c *Charm) watcherBags(w model.Watchers, facts model.Facts, up listening) (b watcherBags, err error) {
	cfg, _ := config.Parse(facts.Config, facts.Secrets) // checked before
	gpus := cfg.Mode != "web" && slices.Contains([]string{"auto", "rocm", "cuda"}, cfg.ComputeRuntime)
	webs := cfg.Mode != "worker" && cfg.Metrics
	if b.silent = !gpus && !webs; b.silent {
		b.agent, err = relation.NoCOSAgent()
		return b, err
	}
	var rules []byte
	var all, here []relation.Job
	if gpus {
		all = append(all, relation.ExporterJob())
	}
	rules, err = c.rules("prometheus_alert_rules", ruleFile{"amd-alerts.yaml", gpus}, ruleFile{"concourse-alerts.yaml", webs}, ruleFile{"concourse-usage.yaml", webs})
	if err != nil {
		return b, err
	}
	switch {
	case webs && cfg.Mode == "web":
		all = append(all, webJobs("")...)
	case webs && up.Web && w.Address != "": // with mode=auto the leader is the one web
		all = append(all, webJobs(w.Address)...)
	}
	if up.GPU {
		here = append(here, relation.ExporterJob())
	}
	if up.Web {
		here = append(here, webJobs("")...)
	}
	t := relation.Topology{Model: c.Event.ModelName, ModelUUID: c.Event.ModelUUID, App: c.Event.App(), Unit: c.Event.Unit, Charm: charmName}
	if up.GPU || up.Web && cfg.Mode == "web" {
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
	logs, err := c.rules("loki_alert_rules", ruleFile{"amd-logs.yaml", gpus}, ruleFile{"concourse-logs.yaml", webs}, ruleFile{"charm-logs.yaml", true})
	if err != nil {
		return b, err
	}
	b.agent, err = relation.COSAgent(t, rules, logs, boards, here)
	return b, err
}
