package gpuhealth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/sanitize"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu/health"
)

const (
	exporterGPUs = "http://127.0.0.1:9401/api/v1/gpus"
	// exporterTime is more than the exporter waits for a GPU that hangs, and less than
	// Pebble waits for who decides whether GPUs are withheld.
	exporterTime  = monitor.Deadline + 2*time.Second
	ExporterLimit = 16 << 20 // bytes: 512 GPUs with their history and 64 containers each
	MaxRemarks    = 4        // GPUs that a status names
)

// FromExporter is the health of the GPUs as the exporter at url tells it, "" for this
// machine's own. A hook gets what it knows of GPUs from there alone: a process that
// reads a GPU that hangs can't end itself.
func FromExporter(ctx context.Context, h host.Host, url string) ([]State, error) {
	r, err := Ask(ctx, h, url)
	return States(r.GPUs), err
}

// Ask gets all that the exporter tells of GPUs.
func Ask(ctx context.Context, h host.Host, url string) (api.Report, error) {
	var none api.Report
	if url == "" {
		if !h.Real() {
			return none, errors.New("the exporter watches this machine, not CHARM_ROOT")
		}
		url = exporterGPUs
	}
	ctx, cancel := context.WithTimeout(ctx, exporterTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return none, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without a proxy
	resp, err := client.Do(req)
	if err != nil {
		return none, errors.New("the exporter does not answer")
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, ExporterLimit))
	switch {
	case resp.StatusCode != http.StatusOK:
		return none, fmt.Errorf("the exporter answers %d", resp.StatusCode)
	case err != nil:
		return none, errors.New("the exporter does not answer in full")
	}
	return ParseReport(data)
}

// ParseReport reads what listens on the exporter's port, which need not be the
// exporter: all texts in it can be printed, and all numbers are ones that something
// here could have.
func ParseReport(data []byte) (api.Report, error) {
	var r api.Report
	var all any
	err := json.Unmarshal(data, &all)
	if err == nil {
		data, err = json.Marshal(tame(all))
	}
	if err != nil || json.Unmarshal(data, &r) != nil {
		return api.Report{}, errors.New("the exporter does not answer with its list of GPUs")
	}
	if len(r.GPUs) == 0 {
		return api.Report{}, errors.New("the exporter knows of no GPU")
	}
	return r, nil
}

// tame is a value of JSON without surprises.
func tame(v any) any {
	switch v := v.(type) {
	case string:
		return Printable(v)
	case float64:
		if math.Abs(v) > 1<<53 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = tame(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, e := range v {
			out[Printable(key)] = tame(e)
		}
		return out
	}
	return v
}

// maxText bounds a text of the exporter's, in characters.
const maxText = 300

// Printable is a text of others for one line of a status or a terminal.
func Printable(text string) string { return sanitize.Line(text, maxText) }

// Remarks are the GPUs that are critical, for the unit's status.
func Remarks(ctx context.Context, h host.Host, url string) (causes []status.Cause) {
	states, err := FromExporter(ctx, h, url)
	if err != nil {
		return nil // whether the exporter works is told by another remark
	}
	if seen := Critical(states); len(seen) > 0 {
		causes = append(causes, status.Cause{Kind: status.Active, Text: strings.Join(seen, "; ")})
	}
	return causes
}

// Critical names the GPUs that are, and how many more there are than MaxRemarks.
func Critical(states []State) (seen []string) {
	more := 0
	for _, s := range states {
		switch {
		case s.State != health.Critical:
		case len(seen) == MaxRemarks:
			more++
		default:
			seen = append(seen, fmt.Sprintf("GPU %d is critical: %s%s", s.Index, s.Reason, SeeCodes(s.Codes)))
		}
	}
	if more > 0 {
		seen = append(seen, fmt.Sprintf("%d more GPUs are critical", more))
	}
	return seen
}

// Out names the GPUs that no new task gets, and how many more there are than MaxRemarks.
func Out(all []api.Status) (seen []string) {
	more := 0
	for _, s := range all {
		switch {
		case !s.Excluded():
		case len(seen) == MaxRemarks:
			more++
		default:
			seen = append(seen, fmt.Sprintf("GPU %d is %s %s", s.Index, s.Service.State, s.Service.Text()))
		}
	}
	if more > 0 {
		seen = append(seen, fmt.Sprintf("%d more GPUs are not given to tasks", more))
	}
	return seen
}
