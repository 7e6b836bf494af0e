package metricsserver

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics answers with what is collected, and where process says so with the go_ and
// process_ metrics of the program itself.
func Metrics(process bool, collect ...prometheus.Collector) http.Handler {
	r := registry(process)
	r.MustRegister(collect...) // it fails where two have one name, which tests would see
	return handler(prometheus.ToTransactionalGatherer(r))
}

// Gathered does the same with what is gathered, which is not checked for series that
// are there twice.
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
