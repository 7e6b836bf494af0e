package gpustate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"concourse-ci-machine/internal/exporter"
	"concourse-ci-machine/internal/exporter/health"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/status"
)

const (
	exporterGPUs = "http://127.0.0.1:9401/api/v1/gpus"
	// exporterTime is more than the exporter waits for a GPU that hangs.
	exporterTime  = exporter.Deadline + 3*time.Second
	ExporterLimit = 4 << 20 // bytes: some thousand GPUs
	MaxRemarks    = 4       // GPUs that a status names
)

// FromExporter asks the exporter at url, "" for this machine's own. A hook gets what it knows of GPUs from there
// alone: a process that reads a GPU that hangs can't end itself.
func FromExporter(ctx context.Context, h host.Host, url string) ([]State, error) {
	if url == "" {
		if !h.Real() {
			return nil, errors.New("the exporter watches this machine, not CHARM_ROOT")
		}
		url = exporterGPUs
	}
	ctx, cancel := context.WithTimeout(ctx, exporterTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without a proxy
	resp, err := client.Do(req)
	if err != nil {
		return nil, errors.New("the exporter does not answer")
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, ExporterLimit))
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the exporter answers %d", resp.StatusCode)
	case err != nil:
		return nil, errors.New("the exporter does not answer in full")
	}
	return ParseStates(data)
}

// ParseStates reads what listens on the exporter's port, which need not be the
// exporter.
func ParseStates(data []byte) ([]State, error) {
	var answer struct {
		GPUs []exporter.Status `json:"gpus"`
	}
	if json.Unmarshal(data, &answer) != nil {
		return nil, errors.New("the exporter does not answer with its list of GPUs")
	}
	if len(answer.GPUs) == 0 {
		return nil, errors.New("the exporter knows of no GPU")
	}
	return statesOf(answer.GPUs), nil
}

// printable is text for one line of a status or a terminal: bounded, and
// without anything that moves a cursor.
func printable(text string) string {
	const limit = 300
	runes := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text))
	if len(runes) > limit {
		return string(runes[:limit]) + "..."
	}
	return string(runes)
}

// Remarks are the GPUs that are critical, for the unit's status.
func Remarks(ctx context.Context, h host.Host, url string) (causes []status.Cause) {
	states, err := FromExporter(ctx, h, url)
	if err != nil {
		return nil // whether the exporter works is told by another remark
	}
	var seen []string
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
	if len(seen) > 0 {
		causes = append(causes, status.Cause{Kind: status.Active, Text: strings.Join(seen, "; ")})
	}
	return causes
}
