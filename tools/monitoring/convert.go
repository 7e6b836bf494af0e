package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// charmOnly matches the metrics that only a worker of the charm has.
var charmOnly = regexp.MustCompile(
	`rocm_gpu_(lease|service|quarantine|container_faults)|rocm_exporter_(lease|service)|concourse_worker`)

// commands replaces the charm's remedies. UNIT is the placeholder of rules on logs, which
// have no label of the unit.
var commands = []struct {
	charm *regexp.Regexp
	own   string
}{
	{remedy(`juju run UNIT explain-error code=(\d)`), "gpukit explain $1"},
	{remedy(`juju run UNIT explain-error`), "gpukit errors"},
	{remedy(`juju run UNIT gpu-health`), "gpukit gpu health"},
	{remedy(`; juju run UNIT gpu-status its task`), ""},
	{remedy(`juju ssh UNIT systemctl status concourse-pebble`), "systemctl status rocm-gpu-exporter"},
	{remedy(`juju ssh UNIT sudo`), "sudo"},
	{remedy(`juju status UNIT`), "systemctl status rocm-gpu-exporter"},
}

// boards replaces the charm's words of a dashboard.
var boards = []struct {
	charm *regexp.Regexp
	own   string
}{
	{regexp.MustCompile(`On the unit: explain-error code=(\d)(?: or( \d))?`), "On the host: gpukit explain $1$2"},
	{regexp.MustCompile(`On the unit: gpu-health`), "On the host: gpukit gpu health"},
	{regexp.MustCompile(`Alerts of the charm that fire`), "Alerts that fire"},
	{regexp.MustCompile(`readings, holder and the`), "readings and the"},
}

const unitLabel = "{{ $labels.juju_unit }}"

func remedy(pattern string) *regexp.Regexp {
	unit := "(?:UNIT|" + regexp.QuoteMeta(unitLabel) + ")"
	return regexp.MustCompile(strings.ReplaceAll(pattern, "UNIT", unit))
}

type rules struct {
	Groups []group `yaml:"groups"`
}

type group struct {
	Name     string `yaml:"name"`
	Interval string `yaml:"interval"`
	Rules    []rule `yaml:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// convertRules converts a file of alert rules.
func convertRules(data []byte) ([]byte, error) {
	var all rules
	source := yaml.NewDecoder(bytes.NewReader(data))
	source.KnownFields(true)
	if err := source.Decode(&all); err != nil {
		return nil, err
	}
	for i := range all.Groups {
		g := &all.Groups[i]
		g.Rules = slices.DeleteFunc(g.Rules, func(r rule) bool {
			return charmOnly.MatchString(r.Expr) || r.Labels["category"] != "amd"
		})
		for _, r := range g.Rules {
			for name, text := range r.Annotations {
				for _, c := range commands {
					text = c.charm.ReplaceAllString(text, c.own)
				}
				r.Annotations[name] = strings.ReplaceAll(text, unitLabel, "{{ $labels.instance }}")
			}
		}
	}
	out := bytes.NewBufferString("# Alerts on the AMD GPUs of machines that run rocm-gpu-exporter.\n")
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(all), encoder.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), withoutCharm(out.String())
}

// labels replaces the labels of a unit by the label of its host.
var labels = strings.NewReplacer(
	`juju_model=~"$juju_model",juju_model_uuid=~"$juju_model_uuid",juju_application=~"$juju_application",`+
		`juju_unit=~"$juju_unit"`, `instance=~"$instance"`,
	"juju_model_uuid, juju_unit, instance", "instance",
	"{{juju_unit}}", "{{instance}}",
	"of its worker", "of its host", "of the worker", "of the host",
)

// convertDashboard converts a dashboard.
func convertDashboard(data []byte) ([]byte, error) {
	var board map[string]any
	if err := json.Unmarshal(data, &board); err != nil {
		return nil, err
	}
	board["uid"] = "rocm-gpu-exporter"
	board["panels"] = convertPanels(list(board, "panels"))
	board["links"] = slices.DeleteFunc(list(board, "links"), func(link any) bool {
		return link.(map[string]any)["title"] != "Alerts"
	})
	annotations := board["annotations"].(map[string]any)
	annotations["list"] = slices.DeleteFunc(list(annotations, "list"), usesCharm)
	variables := board["templating"].(map[string]any)
	variables["list"] = slices.DeleteFunc(list(variables, "list"), func(v any) bool {
		name, _ := v.(map[string]any)["name"].(string)
		return strings.HasPrefix(name, "juju_") && name != "juju_unit"
	})
	for _, v := range list(variables, "list") {
		if v := v.(map[string]any); v["name"] == "juju_unit" {
			const values = "label_values(rocm_exporter_gpus, instance)"
			v["name"], v["label"], v["definition"] = "instance", "Host", values
			v["query"].(map[string]any)["query"] = values
		}
	}
	text, err := json.MarshalIndent(rewrite(board), "", "  ")
	return append(text, '\n'), errors.Join(err, withoutCharm(string(text)))
}

func list(of map[string]any, name string) []any {
	all, _ := of[name].([]any)
	return all
}

// usesCharm reports whether a query uses a metric of the charm.
func usesCharm(query any) bool {
	expr, _ := query.(map[string]any)["expr"].(string)
	return charmOnly.MatchString(expr)
}

// convertPanels removes queries of the charm's metrics, then panels without queries and rows
// without panels.
func convertPanels(all []any) []any {
	return slices.DeleteFunc(all, func(p any) bool {
		panel := p.(map[string]any)
		panels, targets := list(panel, "panels"), list(panel, "targets")
		if len(panels) > 0 {
			panel["panels"] = convertPanels(panels)
			return len(list(panel, "panels")) == 0
		}
		if len(targets) == 0 {
			return false // the open row
		}
		panel["targets"] = slices.DeleteFunc(targets, usesCharm)
		return len(list(panel, "targets")) == 0
	})
}

// rewrite replaces labels and words in all texts of a JSON value. Keys are names of columns.
func rewrite(v any) any {
	switch v := v.(type) {
	case string:
		for _, c := range boards {
			v = c.charm.ReplaceAllString(v, c.own)
		}
		return labels.Replace(v)
	case []any:
		for i := range v {
			v[i] = rewrite(v[i])
		}
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			switch key {
			case "juju_model_uuid", "instance": // hidden beside the unit
				continue
			case "juju_unit":
				key = "instance"
				if value == "unit" {
					value = "host"
				}
			}
			out[key] = rewrite(value)
		}
		return out
	}
	return v
}

// charmWords matches Juju's name, and the charm's commands and words. A page of the docs has
// the name gpu-health.
var charmWords = regexp.MustCompile(`(?i)juju|on the unit|of the charm|explain-error|[^/]gpu-health`)

// withoutCharm returns an error for a text that names Juju or needs the charm.
func withoutCharm(text string) error {
	at := charmWords.FindStringIndex(text)
	if at == nil {
		return nil
	}
	near := text[max(0, at[0]-40):min(len(text), at[0]+60)]
	return fmt.Errorf("cannot convert %q: tools/monitoring has no words for it", near)
}
