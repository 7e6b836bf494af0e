package jobexporter

import (
	"net/http"

	"concourse-ci-machine/internal/base/metricsserver"
)

// atOnce bounds the memory: a scrape of 10,000 jobs takes 20 MB while it is made.
const atOnce = 4

// Handler serves /metrics, where process says so with those of this process, and
// /-/healthy and /-/ready. Healthy is about the exporter alone: starting it anew
// would not bring Concourse back.
func Handler(p *Poller, process bool) http.Handler {
	mux := metricsserver.NewMux("concourse-exporter")
	mux.Handle("GET /metrics", metricsserver.NewLimited(atOnce).Wrap(metricsserver.Metrics(process, p)))
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.Ready(); err != nil {
			metricsserver.WriteText(w, http.StatusServiceUnavailable, err.Error()+".\n")
			return
		}
		metricsserver.WriteText(w, http.StatusOK, "Concourse answers.\n")
	})
	return mux
}
