package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxScrapes is how many scrapes may run at once; more are answered 503.
	maxScrapes = 16
	// drainTime is how long a stop waits for scrapes in progress. Pebble kills
	// a service 5 s after asking it to stop.
	drainTime = 4 * time.Second
)

const index = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>rocm-exporter</title></head>
<body>
<h1>rocm-exporter</h1>
<p>AMD GPUs for Prometheus, from sysfs.</p>
<ul><li><a href="metrics">metrics</a></li><li><a href="-/healthy">health</a></li></ul>
</body>
</html>
`

// Handler serves /metrics, /-/healthy and an index. Health is that of the
// exporter: a sick GPU is in the metrics, and restarting would not heal it.
func Handler(c prometheus.Collector, logs *log.Logger) (http.Handler, error) {
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		return nil, fmt.Errorf("cannot register metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog:            logs,
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
	}))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "rocm-exporter is healthy.\n")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, index)
	})
	return mux, nil
}

// serve answers until stop is done, then finishes what is in progress.
func serve(stop context.Context, l net.Listener, h http.Handler, logs *log.Logger) error {
	s := &http.Server{
		Handler:           h,
		ErrorLog:          logs,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second, // a slow reader of a large scrape
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve on %s: %w", l.Addr(), err)
	case <-stop.Done():
	}
	limit, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := s.Shutdown(limit); errors.Is(err, context.DeadlineExceeded) {
		logs.Printf("gave up on requests in progress after %s", drainTime)
		s.Close()
	} else if err != nil {
		return fmt.Errorf("cannot stop: %w", err)
	}
	return nil
}
