package program

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
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

// Limited lets few requests at a time through to its handlers.
type Limited struct{ free chan struct{} }

// NewLimited has room for all that a few Prometheus servers ask at once.
func NewLimited() *Limited { return &Limited{make(chan struct{}, maxScrapes)} }

// Handle is h, and 503 where there is no room.
func (l *Limited) Handle(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case l.free <- struct{}{}:
			defer func() { <-l.free }()
			h(w, r)
		default:
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
		}
	}
}

// Sender answers with text.
type Sender struct{ zips sync.Pool } // of *gzip.Writer

// Send compresses only for who asks: on a machine's own network a scrape is
// sooner sent than compressed.
func (s *Sender) Send(w http.ResponseWriter, r *http.Request, kind string, b []byte) {
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

// Serve answers until stop is done, then finishes what is in progress.
func Serve(stop context.Context, l net.Listener, h http.Handler, logs *log.Logger) error {
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
