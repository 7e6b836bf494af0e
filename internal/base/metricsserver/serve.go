package metricsserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver/watchdog"
)

// drainTime bounds the wait of a stop for running scrapes. Pebble kills a service 5 s after
// the request to stop.
const drainTime = 4 * time.Second

// healthPath answers at once, independent of the program's work.
const healthPath = "/-/healthy"

// NewMux returns a mux with the health check. The program adds the rest.
func NewMux(name string) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) {
		WriteText(w, http.StatusOK, name+" is healthy.\n")
	})
	return mux
}

// WriteText answers with a line of text.
func WriteText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprint(w, text)
}

// Listen listens on the address in the flags and logs it.
func (s *Server) Listen() error {
	if err := web.Validate(s.flags.config); err != nil {
		// A YAML error has several lines, and the message must have one.
		return fmt.Errorf("cannot use --web.config.file %s: %s; "+
			"https://prometheus.io/docs/prometheus/latest/configuration/https/ has what goes into it",
			s.flags.config, strings.Join(strings.Fields(err.Error()), " "))
	}
	l, err := net.Listen("tcp", s.flags.listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", s.flags.listen, cause(err))
	}
	s.listener = l.(*net.TCPListener) // as requested with "tcp"
	s.Logs.Printf("listening on %s", l.Addr())
	return nil
}

// cause removes net's prefix "listen tcp :9401: bind: " from an error.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return no
	}
	return err
}

// Serve answers until stop is done, and then finishes running requests. It comes after
// Listen.
func (s *Server) Serve(stop context.Context, h http.Handler) error {
	out := lines{s.Logs}
	server := &http.Server{
		Handler:           s.guarded(h),
		ErrorLog:          log.New(out, "", 0),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second, // from the request on; Prometheus waits for 10
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		Protocols:         new(http.Protocols),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			ctx, guestOf(c).cancel = context.WithCancel(ctx)
			return ctx
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				guestOf(c).answered()
			}
		},
	}
	// Not HTTP/2: with one request at a time for each connection, the number of connections
	// bounds the memory for clients that do not read.
	server.Protocols.SetHTTP1(true)
	failed := make(chan error, 1)
	go func() {
		failed <- web.Serve(&crowd{TCPListener: s.listener}, server, &web.FlagConfig{WebConfigFile: &s.flags.config},
			slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	}()
	if s.dog != nil {
		go s.dog.Watch(watchdog.Answers(s.listener.Addr().String(), healthPath), s.Logs.Printf)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve on %s: %w", s.listener.Addr(), err)
	case <-stop.Done():
	}
	limit, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := server.Shutdown(limit); errors.Is(err, context.DeadlineExceeded) {
		s.Logs.Printf("gave up on requests in progress after %s", drainTime)
		server.Close()
	} else if err != nil {
		return fmt.Errorf("cannot stop: %w", err)
	}
	return nil
}

// lines writes to a log. It drops the lines that the watchdog causes on a TLS port, because
// the watchdog does not use TLS.
type lines struct{ *log.Logger }

func (l lines) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("client sent an HTTP request to an HTTPS server")) {
		l.Print(string(b))
	}
	return len(b), nil
}

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
