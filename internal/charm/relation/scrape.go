package relation

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ScrapeAppKeys returns the keys of the application's databag. Only the leader can write
// it.
func ScrapeAppKeys() []string { return []string{"scrape_jobs", "scrape_metadata", "alert_rules"} }

// ScrapeUnitKeys returns the keys of a unit's databag.
func ScrapeUnitKeys() []string {
	return []string{"prometheus_scrape_unit_address", "prometheus_scrape_unit_path", "prometheus_scrape_unit_name"}
}

// job holds one scrape configuration, with the keys that the library accepts.
type job struct {
	Name    string   `json:"job_name"`
	Path    string   `json:"metrics_path"`
	Targets []target `json:"static_configs"`
}

type target struct {
	Targets []string `json:"targets"`
}

func (j Job) scraped(name, host string) job {
	return job{name, "/metrics", []target{{[]string{fmt.Sprintf("%s:%d", host, j.Port)}}}}
}

// ScrapeApp returns the application's databag. A job without a host has a wildcard, which
// the other side replaces with the address of each unit, see ScrapeUnit. rules is the text
// of a rules file, or nil.
func ScrapeApp(t Topology, rules []byte, jobs []Job) (map[string]string, error) {
	groups, err := alertRules(t, rules)
	if err != nil {
		return nil, err
	}
	scraped := []job{}
	for _, j := range jobs {
		host := "*"
		if j.Host != "" {
			host = bracket(j.Host)
		}
		scraped = append(scraped, j.scraped(j.Name, host))
	}
	bag := map[string]string{}
	for key, value := range map[string]any{
		"scrape_jobs":     scraped,
		"scrape_metadata": metadata{t.Model, t.ModelUUID, t.App, t.Unit, t.Charm},
		"alert_rules":     groups,
	} {
		data, err := marshal(value)
		if err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", key, err)
		}
		bag[key] = data
	}
	return bag, nil
}

// metadata corresponds to cosl's JujuTopology.as_dict.
type metadata struct {
	Model     string `json:"model"`
	ModelUUID string `json:"model_uuid"`
	App       string `json:"application"`
	Unit      string `json:"unit"`
	Charm     string `json:"charm_name"`
}

// ScrapeUnit returns the databag of a unit with an exporter. Without an exporter or an
// address all keys are missing. Then the unit is not a target of the wildcard, and no alert
// reports an exporter that never ran (D55).
func ScrapeUnit(unit, address string) map[string]string {
	if address == "" {
		return nil
	}
	return map[string]string{
		"prometheus_scrape_unit_address": bracket(address),
		"prometheus_scrape_unit_path":    "",
		"prometheus_scrape_unit_name":    unit,
	}
}

// bracket puts an IPv6 address in brackets, because the other side appends the port.
func bracket(address string) string {
	if strings.Contains(address, ":") {
		return "[" + address + "]"
	}
	return address
}

// marshal encodes JSON without HTML escapes, which would make queries in the databag
// hard to read.
func marshal(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
