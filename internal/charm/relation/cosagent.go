package relation

import (
	"crypto/sha3"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// COSAgentKey is the key of cos_agent, in each unit's bag: a subordinate sees no
// other bag.
const COSAgentKey = "config"

// Dashboard is a Grafana dashboard that comes with the charm.
type Dashboard struct {
	Path string // in the charm: it makes the dashboard's uid
	JSON []byte
}

// agentData is cos_agent's CosAgentProviderUnitData. The two keys without a
// value are for readers that want every key to be there.
type agentData struct {
	MetricsRules ruleGroups `json:"metrics_alert_rules"`
	LogRules     logGroups  `json:"log_alert_rules"`
	Dashboards   []string   `json:"dashboards"`
	Subordinate  *bool      `json:"subordinate"`
	Jobs         []job      `json:"metrics_scrape_jobs"`
	LogSlots     []string   `json:"log_slots"`
	Tracing      []string   `json:"tracing_protocols"`
}

// logGroups has no key where there is no group, as the library writes it: the other side
// keeps a file of rules for an application as long as this is not empty.
type logGroups struct {
	Groups []ruleGroup `json:"groups,omitempty"`
}

// COSAgent is a unit's bag. Rules and dashboards are the same in all units, as
// the other side takes them from any one of an application; jobs are those
// that listen on this unit (D55).
func COSAgent(t Topology, rules, logs []byte, dashboards []Dashboard, jobs []Job) (map[string]string, error) {
	groups, err := alertRules(t, rules)
	if err != nil {
		return nil, err
	}
	inLogs, err := logRules(t, logs)
	if err != nil {
		return nil, err
	}
	d := agentData{MetricsRules: groups, LogRules: logGroups(inLogs), Dashboards: []string{}, Jobs: []job{}, LogSlots: []string{}}
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
	return d.bag()
}

// NoCOSAgent takes back what COSAgent told: the other side keeps a copy of rules
// and dashboards, which only an empty list replaces, not a key that is gone.
func NoCOSAgent() (map[string]string, error) {
	return agentData{MetricsRules: ruleGroups{[]ruleGroup{}}, Dashboards: []string{}, Jobs: []job{}, LogSlots: []string{}}.bag()
}

func (d agentData) bag() (map[string]string, error) {
	text, err := marshal(d)
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", COSAgentKey, err)
	}
	return map[string]string{COSAgentKey: text}, nil
}

// pack is the dashboard as cosl's LZMABase64 has it, with the uid and the tag
// that the library gives to dashboards of a charm.
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

// dashboardUID is cosl's DashboardPath40UID: 40 hex digits, which is as long as
// Grafana lets it be.
func dashboardUID(charm, path string) string {
	return hex.EncodeToString(sha3.SumSHAKE256([]byte(charm+"-"+path), 20))
}
