package relation

import (
	"crypto/sha3"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"hash/crc64"
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

// maxChunk is the length of the longest uncompressed chunk of LZMA2.
const maxChunk = 1 << 16

// xz returns data as an .xz file (specification 1.2.1) with the CRC64 check that the xz
// program uses. Its LZMA2 chunks are stored without compression. Every reader of .xz
// accepts that, and the size of a databag does not matter.
func xz(data []byte) []byte {
	le := binary.LittleEndian
	flags := []byte{0, 4} // stream flags: the check is CRC64
	out := append([]byte("\xfd7zXZ\x00"), flags...)
	out = le.AppendUint32(out, crc32.ChecksumIEEE(flags))

	start := len(out)
	// Block header: 12 bytes in all, one filter, no sizes; LZMA2 (0x21) with one
	// byte of properties, which asks for the smallest dictionary, of 4 KiB.
	header := []byte{12/4 - 1, 0, 0x21, 1, 0, 0, 0, 0}
	out = le.AppendUint32(append(out, header...), crc32.ChecksumIEEE(header))
	for rest, first := data, true; len(rest) > 0; first = false {
		n := min(len(rest), maxChunk)
		control := byte(2) // uncompressed
		if first {
			control = 1 // and the dictionary is reset
		}
		out = binary.BigEndian.AppendUint16(append(out, control), uint16(n-1))
		out = append(out, rest[:n]...)
		rest = rest[n:]
	}
	out = append(out, 0) // the end of LZMA2
	const check = 8
	unpadded := len(out) - start + check
	out = pad(out, start)
	out = le.AppendUint64(out, crc64.Checksum(data, crc64.MakeTable(crc64.ECMA)))

	index := len(out)
	out = append(out, 0, 1) // an index of one record
	out = binary.AppendUvarint(out, uint64(unpadded))
	out = binary.AppendUvarint(out, uint64(len(data)))
	out = pad(out, index)
	out = le.AppendUint32(out, crc32.ChecksumIEEE(out[index:]))

	footer := le.AppendUint32(nil, uint32((len(out)-index)/4-1))
	footer = append(footer, flags...)
	out = le.AppendUint32(out, crc32.ChecksumIEEE(footer))
	out = append(out, footer...)
	return append(out, 'Y', 'Z')
}

// pad extends the part from start to a multiple of four bytes.
func pad(b []byte, start int) []byte {
	for (len(b)-start)%4 != 0 {
		b = append(b, 0)
	}
	return b
}
