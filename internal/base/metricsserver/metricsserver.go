// Package metricsserver has the common parts of programs that serve metrics to Prometheus.
// It reads their common flags, ends with its parent, listens, watches itself, limits
// connections and parallel answers, supports TLS and passwords, and drains before it stops.
// It has no metrics except those of a program's own process.
package metricsserver

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver/watchdog"
)

// Server represents a running program.
type Server struct {
	Logs   *log.Logger
	Reload <-chan os.Signal // receives SIGHUP
	// URLs returns the URLs that lead to the program, such as at a proxy. nil: none.
	URLs func() []string

	flags    *Flags
	dog      *watchdog.Watchdog
	listener *net.TCPListener
}

// Run runs the program of a command with the flags f, until SIGTERM or SIGINT. A failed
// start is an error, because the supervisor takes exit status 0 for finished work.
func (f *Flags) Run(c *cobra.Command, run func(context.Context, *Server) error) error {
	// First, because an earlier SIGHUP would end the program.
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := endWithParent(); err != nil {
		return err
	}
	s := &Server{Logs: log.New(c.ErrOrStderr(), c.Root().Name()+": ", 0), Reload: reload, flags: f}
	if f.Watchdog > 0 {
		var err error
		if s.dog, err = watchdog.Start(f.Watchdog); err != nil {
			return err
		}
	}
	return run(stop, s)
}

// Postpone reports to the watchdog that the program works, if it has no health check to
// request.
func (s *Server) Postpone() error { return s.dog.Postpone() }

// endWithParent makes the kernel send SIGTERM when the parent dies. A killed supervisor
// cannot stop its services. A surviving service would keep the port, so that its successor
// could never start. A program whose parent has already ended does not start.
//
// The kernel stores the request with the calling thread, and acts when the parent's thread
// that started this process ends. Go ends only threads with a locked goroutine, which
// neither this program nor Pebble has. The request is dropped when a program changes its
// user, so no later code may do so.
func endWithParent() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot request a signal at the parent's end: %w", err)
	}
	if orphaned(os.Getppid()) {
		return errors.New("cannot run: the process that started this one has ended; " +
			"start it by a supervisor, or by setsid")
	}
	return nil
}

// orphaned reports whether parent did not start this process, but got it when the one that
// started it ended. A child is in the session of its parent, or leads one of its own.
// A parent outside of the container has no session here.
func orphaned(parent int) bool {
	own, err := unix.Getsid(0)
	if err != nil || own == os.Getpid() {
		return false
	}
	session, err := unix.Getsid(parent)
	return err == nil && parent != 0 && session != own
}
