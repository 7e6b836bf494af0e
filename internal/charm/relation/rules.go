package relation

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// ruleGroups holds a rules file of Prometheus.
type ruleGroups struct {
	Groups []ruleGroup `yaml:"groups" json:"groups"`
}

type ruleGroup struct {
	Name     string `yaml:"name" json:"name"`
	Interval string `yaml:"interval" json:"interval,omitempty"`
	Rules    []rule `yaml:"rules" json:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert" json:"alert,omitempty"`
	Record      string            `yaml:"record" json:"record,omitempty"`
	Expr        string            `yaml:"expr" json:"expr"`
	For         string            `yaml:"for" json:"for,omitempty"`
	Labels      map[string]string `yaml:"labels" json:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations" json:"annotations,omitempty"`
}

// notOfAName matches the characters that are not allowed in the name of a group.
var notOfAName = lazyregexp.New(`[^a-zA-Z0-9_:]`)

// alertRules reads a rules file, or several of them as documents of one YAML text, and
// prepares it like cosl. The names of groups become unique among applications, and each
// alert gets the labels of its application. A recording rule gets no labels, because it
// joins series of several applications: a reader that found labels would narrow all of
// them down to one. Expressions do not change, because readers add these labels to them.
func alertRules(t Topology, file []byte) (ruleGroups, error) {
	return labelled(t, file, map[string]string{"juju_model": t.Model, "juju_model_uuid": t.ModelUUID,
		"juju_application": t.App, "juju_charm": t.Charm})
}

// logRules does the same for rules of Loki, without the labels of application and charm. An
// agent labels the streams of a machine with its own application. The reader adds the
// missing labels to a rule and narrows its expression down to them. So a rule with the
// labels of this application would never fire.
func logRules(t Topology, file []byte) (ruleGroups, error) {
	out, err := labelled(t, file, map[string]string{"juju_model": t.Model, "juju_model_uuid": t.ModelUUID})
	for _, g := range out.Groups {
		for i := range g.Rules {
			g.Rules[i].Expr = strings.ReplaceAll(g.Rules[i].Expr, "%%juju_application%%", t.App)
		}
	}
	return out, err
}

func labelled(t Topology, file []byte, topology map[string]string) (ruleGroups, error) {
	d := yaml.NewDecoder(strings.NewReader(string(file)))
	d.KnownFields(true) // an unknown key would be lost silently
	out := ruleGroups{Groups: []ruleGroup{}}
	if len(file) == 0 {
		return out, nil
	}
	for {
		var one ruleGroups
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, fmt.Errorf("cannot read the alert rules: %w", err)
		}
		out.Groups = append(out.Groups, one.Groups...)
	}
	for i := range out.Groups {
		g := &out.Groups[i]
		g.Name = notOfAName().ReplaceAllString(t.identifier()+"_"+g.Name+"_rules", "_")
		for j := range g.Rules {
			if g.Rules[j].Record != "" {
				continue
			}
			labels := maps.Clone(topology)
			maps.Copy(labels, g.Rules[j].Labels)
			g.Rules[j].Labels = labels
			if t.FleetPage == "" {
				continue
			}
			if g.Rules[j].Annotations == nil {
				g.Rules[j].Annotations = map[string]string{}
			}
			g.Rules[j].Annotations["fleet_url"] = t.FleetPage
		}
	}
	return out, nil
}
