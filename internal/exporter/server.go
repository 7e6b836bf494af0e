package exporter

import (
	"encoding/json"
	"net/http"

	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/page"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/series"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// atOnce limits the concurrent requests. A few Prometheus servers need fewer.
const atOnce = 16

// MetricOptions selects further metrics.
type MetricOptions struct {
	DCGM    bool // repeat values under NVIDIA's names and units
	Process bool // show go_ and process_ of the exporter itself
}

// Handler serves /metrics, /api/v1/gpus, /api/v1/verdicts, /-/healthy, and pages of the GPUs
// and the tasks. /-/healthy shows the health of the exporter only: a restart would not repair
// a GPU, which has its own metrics.
func Handler(source *Source, shown MetricOptions) http.Handler {
	limited := metricsserver.NewLimited(atOnce)
	metrics := series.New(source.Monitor.Snapshot,
		series.Options{Version: source.Version, Page: source.Links.Self, DCGM: shown.DCGM})
	mux := metricsserver.NewMux("rocm-exporter")
	mux.Handle("GET /metrics", limited.Wrap(metricsserver.Gathered(shown.Process, metrics)))
	mux.Handle("GET /api/v1/gpus", limited.Wrap(answerJSON(func() any { return source.Report() })))
	mux.Handle("GET /api/v1/verdicts", limited.Wrap(answerJSON(func() any { return entries(source.Monitor.Tasks()) })))
	mux.Handle("GET /tasks", limited.Wrap(page.Tasks(source.Monitor.Tasks, source.Links)))
	mux.Handle("GET /{$}", limited.Wrap(page.Handler(source.Report, source.Links)))
	return mux
}

// entries returns the verdicts on tasks, an empty list without a report.
func entries(r *verdict.Report) []verdict.Entry {
	if r == nil {
		return []verdict.Entry{}
	}
	return append([]verdict.Entry{}, r.Entries...)
}

// answerJSON answers with content as JSON.
func answerJSON(content func() any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, err := json.MarshalIndent(content(), "", "  ")
		if err != nil {
			http.Error(w, "cannot write JSON: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(append(text, '\n'))
	})
}
