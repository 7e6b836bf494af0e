package metricsserver

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics serves the collected metrics and, if process is set, the go_ and process_ metrics
// of the program itself.
func Metrics(process bool, collect ...prometheus.Collector) http.Handler {
	r := registry(process)
	r.MustRegister(collect...) // panics on two equal names, which tests find
	return handler(prometheus.ToTransactionalGatherer(r))
}

// Gathered serves gathered metrics in the same way. It does not check them for duplicate
// series.
func Gathered(process bool, g prometheus.TransactionalGatherer) http.Handler {
	if !process {
		return handler(g)
	}
	return handler(prometheus.NewMultiTRegistry(g, prometheus.ToTransactionalGatherer(registry(process))))
}

func registry(process bool) *prometheus.Registry {
	r := prometheus.NewRegistry()
	if process {
		r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	return r
}

func handler(g prometheus.TransactionalGatherer) http.Handler {
	return promhttp.HandlerForTransactional(g, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
