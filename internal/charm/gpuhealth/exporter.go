package gpuhealth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

const (
	exporterGPUs  = "http://127.0.0.1:9401/api/v1/gpus"
	lastCode      = 8        // of explain-error
	ExporterLimit = 16 << 20 // bytes: 512 GPUs with their history and 64 containers each
)

// Fetch fetches the exporter's report on all GPUs.
func Fetch(ctx context.Context, h host.Host, url string) (api.Report, error) {
	var none api.Report
	if url == "" {
		if !h.Real() {
			return none, errors.New("the exporter watches this machine, not CHARM_ROOT")
		}
		url = exporterGPUs
	}
	data, err := fetch(ctx, url)
	if err != nil {
		return none, err
	}
	return ParseReport(data)
}

// fetch fetches the answer of an exporter on this machine.
func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, api.Timeout)
	defer cancel()
	code, data, err := httpclient.Get(ctx, url, ExporterLimit)
	switch {
	case err != nil && code == 0:
		return nil, errors.New("the exporter does not answer")
	case code != http.StatusOK:
		return nil, fmt.Errorf("the exporter answers %d", code)
	case err != nil:
		return nil, errors.New("the exporter does not answer in full")
	}
	return data, nil
}

// FetchJSON decodes the JSON of an exporter on this machine. Another program may answer, so
// all texts are printable, and all numbers are plausible.
func FetchJSON(ctx context.Context, url string, into any) error {
	data, err := fetch(ctx, url)
	if err != nil {
		return err
	}
	return decodeSafe(data, into)
}

// decodeSafe decodes JSON with printable texts and plausible numbers.
func decodeSafe(data []byte, into any) error {
	var all any
	err := json.Unmarshal(data, &all)
	if err == nil {
		data, err = json.Marshal(sanitizeValue(all))
	}
	if err != nil || json.Unmarshal(data, into) != nil {
		return errors.New("the exporter does not answer with the expected JSON")
	}
	return nil
}

// ParseReport decodes an answer from the exporter's port, which may come from another
// program. All texts in the result are printable, all numbers are plausible, and each GPU
// has one of api.States.
func ParseReport(data []byte) (api.Report, error) {
	var r api.Report
	if decodeSafe(data, &r) != nil {
		return api.Report{}, errors.New("the exporter does not answer with its list of GPUs")
	}
	if len(r.GPUs) == 0 {
		return api.Report{}, errors.New("the exporter lists no GPU")
	}
	for i := range r.GPUs {
		h := &r.GPUs[i].Health
		h.State = api.StateOf(r.GPUs[i])
		h.Codes = slices.DeleteFunc(h.Codes, func(code int) bool { return code < 1 || code > lastCode })
	}
	return r, nil
}

// sanitizeValue returns a JSON value with printable texts and plausible numbers.
func sanitizeValue(v any) any {
	switch v := v.(type) {
	case string:
		return Printable(v)
	case float64:
		if math.Abs(v) > 1<<53 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = sanitizeValue(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, e := range v {
			out[Printable(key)] = sanitizeValue(e)
		}
		return out
	}
	return v
}

// maxText bounds a text of the exporter, in characters.
const maxText = 300

// Printable makes a foreign text fit one line of a status or a terminal.
func Printable(text string) string { return sanitize.Line(text, maxText) }
