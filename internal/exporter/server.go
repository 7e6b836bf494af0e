package exporter

import (
	"io"
	"net/http"
	"sync"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/program"
)

// healthPath answers at once, whatever the GPUs do.
const healthPath = "/-/healthy"

// Handler serves /metrics, /api/v1/gpus, /-/healthy and a page. Health is that
// of the exporter: a sick GPU is in the metrics, and restarting would not heal it.
func Handler(c *Collector) http.Handler {
	free := program.NewLimited()
	s := &scrapes{collector: c, people: sync.OnceValue(newPage)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", free.Handle(s.metrics))
	mux.HandleFunc("GET /api/v1/gpus", free.Handle(s.gpus))
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "rocm-exporter is healthy.\n")
	})
	mux.HandleFunc("GET /{$}", free.Handle(s.page))
	return mux
}

// scrapes answers what makes the collector read.
type scrapes struct {
	collector *Collector
	people    func() *page
}

func (s *scrapes) metrics(_ http.ResponseWriter, r *http.Request, b []byte) (string, []byte) {
	format := expo.Negotiate(r.Header.Get("Accept"))
	return format.ContentType(), s.collector.Write(b, format)
}
