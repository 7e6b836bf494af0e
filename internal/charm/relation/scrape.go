package relation

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ScrapeAppKeys are the keys of the application's bag, which only its leader can
// write.
func ScrapeAppKeys() []string { return []string{"scrape_jobs", "scrape_metadata", "alert_rules"} }

// ScrapeUnitKeys are the keys of a unit's bag.
func ScrapeUnitKeys() []string {
	return []string{"prometheus_scrape_unit_address", "prometheus_scrape_unit_path", "prometheus_scrape_unit_name"}
}

// job is one scrape configuration, with the keys that the library lets pass.
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

// ScrapeApp is the application's bag. A job without a host has a wildcard there:
// the other side puts in its place the address of each unit that gave one, see
// ScrapeUnit. rules is the text of a rules file, nil for none.
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
		"scrape_metadata": metadata(t),
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

// metadata is cosl's JujuTopology.as_dict.
type metadata struct {
	Model     string `json:"model"`
	ModelUUID string `json:"model_uuid"`
	App       string `json:"application"`
	Unit      string `json:"unit"`
	Charm     string `json:"charm_name"`
}

// ScrapeUnit is the bag of a unit where the exporter listens. A unit without an
// exporter, or without an address, has none of the keys: then the wildcard does
// not become a target there, and nothing is reported down that never was up
// (D55).
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

// bracket makes an IPv6 address fit to stand before a port: the other side only
// puts it in the wildcard's place.
func bracket(address string) string {
	if strings.Contains(address, ":") {
		return "[" + address + "]"
	}
	return address
}

// marshal is json.Marshal without the escapes that HTML needs, which would make
// queries unreadable to people who look at the bag.
func marshal(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
