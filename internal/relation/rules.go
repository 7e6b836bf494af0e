package relation

import (
	"errors"
	"fmt"
	"io"
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
			labels := map[string]string{"juju_model": t.Model, "juju_model_uuid": t.ModelUUID, "juju_application": t.App, "juju_charm": t.Charm}
			for k, v := range g.Rules[j].Labels {
				labels[k] = v
			}
			g.Rules[j].Labels = labels
		}
	}
	return out, nil
}
