package relation

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// ruleGroups is a rules file of Prometheus.
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

var notOfAName = regexp.MustCompile(`[^a-zA-Z0-9_:]`)

// alertRules is a rules file, or several as the documents of one YAML text, as
// cosl hands them on: the groups' names are unique among applications, and each
// alert has the labels of its own. One that is recorded has none: it joins series of
// several applications, and whoever finds labels there narrows all of them down to one. The expressions stay as they are: whoever reads
// the bag narrows them down by these labels.
func alertRules(t Topology, file []byte) (ruleGroups, error) {
	return labelled(t, file, map[string]string{"juju_model": t.Model, "juju_model_uuid": t.ModelUUID, "juju_application": t.App, "juju_charm": t.Charm})
}

// logRules is the same for rules of Loki, without an application and a charm: an agent
// gives the streams of a machine its own, and whoever reads the bag fills in the same where
// a rule has none and narrows its expression down to them. A rule that named this
// application would never fire.
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
	d.KnownFields(true) // a key that is not passed on must not be lost silently
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
		g.Name = notOfAName.ReplaceAllString(t.identifier()+"_"+g.Name+"_rules", "_")
		for j := range g.Rules {
			if g.Rules[j].Record != "" {
				continue
			}
			labels := maps.Clone(topology)
			maps.Copy(labels, g.Rules[j].Labels)
			g.Rules[j].Labels = labels
		}
	}
	return out, nil
}
