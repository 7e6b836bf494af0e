package metricsserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/exporter-toolkit/web"

	"concourse-ci-machine/internal/base/metricsserver/watchdog"
)

// drainTime is how long a stop waits for scrapes in progress. Pebble kills a
// service 5 s after asking it to stop.
const drainTime = 4 * time.Second

// healthPath answers at once, whatever the program watches.
const healthPath = "/-/healthy"

// NewMux answers the health check; the rest is the program's to add.
func NewMux(name string) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) {
		Say(w, http.StatusOK, name+" is healthy.\n")
	})
	return mux
}

// Say answers with a line of text.
func Say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprint(w, text)
}

// Listen listens where the flags say, and says so.
func (s *Server) Listen() error {
	if err := web.Validate(s.flags.config); err != nil {
		// What YAML has to say takes lines; it is one here.
		return fmt.Errorf("cannot use --web.config.file %s: %s; https://prometheus.io/docs/prometheus/latest/configuration/https/ has what goes into it",
			s.flags.config, strings.Join(strings.Fields(err.Error()), " "))
	}
	l, err := net.Listen("tcp", s.flags.listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", s.flags.listen, cause(err))
	}
	s.listener = l.(*net.TCPListener) // by the name of the network
	s.Logs.Printf("listening on %s", l.Addr())
	return nil
}

// cause is the error without net's own "listen tcp :9401: bind: " before it.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}

// Serve answers until stop is done, then finishes what is in progress. It comes
// after Listen.
func (s *Server) Serve(stop context.Context, h http.Handler) error {
	out := lines{s.Logs}
	server := &http.Server{
		Handler:           h,
		ErrorLog:          log.New(out, "", 0),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second, // from the request on; Prometheus waits for 10
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		Protocols:         new(http.Protocols),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn()
			}
			ctx, c.(*guest).leave = context.WithCancel(ctx)
			return ctx
		},
	}
	// Not HTTP/2: a connection is one request at a time, so that what is kept for
	// clients who do not read is bounded by the number of connections.
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

// lines are written to a log, but for those that the watchdog causes where there is
// TLS: it speaks none.
type lines struct{ *log.Logger }

func (l lines) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("client sent an HTTP request to an HTTPS server")) {
		l.Print(string(b))
	}
	return len(b), nil
}
