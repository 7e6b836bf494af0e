package program

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"
)

// drainTime is how long a stop waits for scrapes in progress. Pebble kills a
// service 5 s after asking it to stop.
const drainTime = 4 * time.Second

// Serve answers until stop is done, then finishes what is in progress.
func Serve(stop context.Context, l *net.TCPListener, h http.Handler, logs *log.Logger) error {
	s := &http.Server{
		Handler:           h,
		ErrorLog:          logs,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second, // from the request on; Prometheus waits for 10
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			ctx, c.(*guest).leave = context.WithCancel(ctx)
			return ctx
		},
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(&crowd{TCPListener: l}) }()
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
