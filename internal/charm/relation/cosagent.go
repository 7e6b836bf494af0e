package relation

import (
	"crypto/sha3"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// COSAgentKey is the key of cos_agent in each unit's databag. A subordinate sees no other
// databag.
const COSAgentKey = "config"

// Dashboard holds a Grafana dashboard of the charm.
type Dashboard struct {
	Path string // in the charm; the dashboard's uid is made from it
	JSON []byte
}

// agentData corresponds to cos_agent's CosAgentProviderUnitData. The keys without a value
// are present because some readers require every key.
type agentData struct {
	MetricsRules ruleGroups `json:"metrics_alert_rules"`
	LogRules     logGroups  `json:"log_alert_rules"`
	Dashboards   []string   `json:"dashboards"`
	Subordinate  *bool      `json:"subordinate"`
	Jobs         []job      `json:"metrics_scrape_jobs"`
	LogSlots     []string   `json:"log_slots"`
	Tracing      []string   `json:"tracing_protocols"`
}

// logGroups omits the key if there are no groups, as the library does. As long as the value
// is not empty, the other side keeps a file of rules for the application.
type logGroups struct {
	Groups []ruleGroup `json:"groups,omitempty"`
}

// COSAgent returns a unit's databag. Rules and dashboards are the same in all units,
// because the other side reads them from any unit of an application. jobs are the
// exporters of this unit (D55).
func COSAgent(t Topology, rules, logs []byte, dashboards []Dashboard, jobs []Job) (map[string]string, error) {
	groups, err := alertRules(t, rules)
	if err != nil {
		return nil, err
	}
	inLogs, err := logRules(t, logs)
	if err != nil {
		return nil, err
	}
	d := agentData{MetricsRules: groups, LogRules: logGroups(inLogs), Dashboards: []string{}, Jobs: []job{},
		LogSlots: []string{}}
	for _, dashboard := range dashboards {
		packed, err := dashboard.pack(t.Charm)
		if err != nil {
			return nil, err
		}
		d.Dashboards = append(d.Dashboards, packed)
	}
	for _, j := range jobs {
		d.Jobs = append(d.Jobs, j.scraped(t.App+"_"+j.Name, "localhost"))
	}
	return d.databag()
}

// NoCOSAgent returns the databag that withdraws everything from COSAgent. The other side
// keeps a copy of rules and dashboards. Only an empty list replaces it, not a missing key.
func NoCOSAgent() (map[string]string, error) {
	return agentData{MetricsRules: ruleGroups{[]ruleGroup{}}, Dashboards: []string{}, Jobs: []job{},
		LogSlots: []string{}}.databag()
}

func (d agentData) databag() (map[string]string, error) {
	text, err := marshal(d)
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", COSAgentKey, err)
	}
	return map[string]string{COSAgentKey: text}, nil
}

// pack encodes the dashboard like cosl's LZMABase64, with the uid and the tag that the
// library gives to dashboards of a charm.
func (d Dashboard) pack(charm string) (string, error) {
	var content map[string]any
	if err := json.Unmarshal(d.JSON, &content); err != nil {
		return "", fmt.Errorf("cannot read dashboard %s: %w", d.Path, err)
	}
	content["uid"] = dashboardUID(charm, d.Path)
	tags, _ := content["tags"].([]any)
	content["tags"] = append(tags, "charm: "+charm)
	text, err := marshal(content)
	if err != nil {
		return "", fmt.Errorf("cannot write dashboard %s: %w", d.Path, err)
	}
	return base64.StdEncoding.EncodeToString(xz([]byte(text))), nil
}

// dashboardUID computes cosl's DashboardPath40UID: 40 hex digits, the longest uid that
// Grafana accepts.
func dashboardUID(charm, path string) string {
	return hex.EncodeToString(sha3.SumSHAKE256([]byte(charm+"-"+path), 20))
}
