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
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// Flags holds the common flags of a program.
type Flags struct {
	Watchdog time.Duration // 0: none

	listen, config string
	hosts          []string
}

// DefaultWatchdog ends a program that hangs. The supervisor's check fails for the third time
// after 23 s at the earliest. It acts only at that failure, so the watchdog must be faster.
const DefaultWatchdog = 20 * time.Second

const minWatchdog = 2 * time.Second

// Declare declares the common flags of a program that serves on port by default.
func Declare(fs *pflag.FlagSet, port int) *Flags {
	f := &Flags{}
	fs.StringVar(&f.listen, "web.listen-address", fmt.Sprintf(":%d", port),
		"`address` to serve on; port 0 takes a free one")
	fs.StringVar(&f.config, "web.config.file", "",
		"`file` with TLS and passwords, as of Prometheus' exporters; empty: neither")
	fs.Func("web.hosts", "further comma-separated `names` under which browsers and scrapers may reach it; addresses, "+
		"private names and names of the machine are always accepted", func(s string) error {
		for name := range strings.SplitSeq(s, ",") {
			f.hosts = append(f.hosts, hostName(strings.TrimSpace(name)))
		}
		return nil
	})
	fs.DurationVar(&f.Watchdog, "web.watchdog", DefaultWatchdog,
		"`time` without an answer to its own health check that ends the program, 2s or more; 0s: never")
	return f
}

// DeclareProcess declares the flag for metrics of the program's own process, for Metrics.
func DeclareProcess(fs *pflag.FlagSet, enabled *bool) {
	fs.BoolVar(enabled, "collect.process", false, "add metrics of the program itself: go_ and process_")
}

// Check validates the flags.
func (f *Flags) Check() error {
	if f.Watchdog < 0 || f.Watchdog > 0 && f.Watchdog < minWatchdog {
		return fmt.Errorf("invalid value %s for flag --web.watchdog: at least %s, or 0s", f.Watchdog, minWatchdog)
	}
	return nil
}
