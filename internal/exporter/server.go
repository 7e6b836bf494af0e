package exporter

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"concourse-ci-machine/internal/exporter/expo"
)

const (
	// maxScrapes is how many scrapes may run at once; more are answered 503.
	maxScrapes = 16
	// drainTime is how long a stop waits for scrapes in progress. Pebble kills
	// a service 5 s after asking it to stop.
	drainTime = 4 * time.Second
)

// healthPath answers at once, whatever the GPUs do.
const healthPath = "/-/healthy"

// Handler serves /metrics, /api/v1/gpus, /-/healthy and a page. Health is that
// of the exporter: a sick GPU is in the metrics, and restarting would not heal it.
func Handler(c *Collector) http.Handler {
	s := &scrapes{collector: c, free: make(chan struct{}, maxScrapes), people: sync.OnceValue(newPage)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.limited(s.metrics))
	mux.HandleFunc("GET /api/v1/gpus", s.limited(s.gpus))
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "rocm-exporter is healthy.\n")
	})
	mux.HandleFunc("GET /{$}", s.limited(s.page))
	return mux
}

// scrapes answers what makes the collector read.
type scrapes struct {
	collector *Collector
	free      chan struct{}
	people    func() *page
	buffers   sync.Pool // *[]byte
	zips      sync.Pool // *gzip.Writer
}

func (s *scrapes) limited(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.free <- struct{}{}:
			defer func() { <-s.free }()
			h(w, r)
		default:
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
		}
	}
}

func (s *scrapes) metrics(w http.ResponseWriter, r *http.Request) {
	format := expo.Negotiate(r.Header.Get("Accept"))
	b, _ := s.buffers.Get().(*[]byte)
	if b == nil {
		b = new([]byte)
	}
	defer s.buffers.Put(b)
	*b = s.collector.Write((*b)[:0], format)
	s.send(w, r, format.ContentType(), *b)
}

// send compresses only for who asks: on a machine's own network a scrape is
// sooner sent than compressed.
func (s *scrapes) send(w http.ResponseWriter, r *http.Request, kind string, b []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept, Accept-Encoding")
	if !expo.Gzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Length", strconv.Itoa(len(b)))
		w.Write(b)
		return
	}
	h.Set("Content-Encoding", "gzip")
	z, _ := s.zips.Get().(*gzip.Writer)
	if z == nil {
		z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that exists is no error
	} else {
		z.Reset(w)
	}
	z.Write(b)
	z.Close()
	s.zips.Put(z)
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
