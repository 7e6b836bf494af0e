// Package metricsserver is what programs that serve metrics to Prometheus have in
// common. It reads their common flags and prints all of them the same way, ends with
// its parent, listens, watches itself, limits connections and how many answers are
// made at once, speaks TLS and asks for passwords where it is told to, and drains when
// told to stop. It knows no metric, but those of a program's own process.
package metricsserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/metricsserver/watchdog"
)

// Exit statuses. A failed start must not be 0: the supervisor takes that for
// work that is done.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Server is a program that runs.
type Server struct {
	Logs  *log.Logger
	Again <-chan os.Signal // SIGHUP

	flags    *Flags
	dog      *watchdog.Watchdog
	listener *net.TCPListener
}

// Main is a program whose command line f has read, with the error err: it prints what
// --help or --version asks for, says what is wrong, or runs until SIGTERM or SIGINT.
// It returns the exit status. intro stands before the flags and ends in an empty line.
func (f *Flags) Main(err error, intro, version string, stdout, stderr io.Writer, run func(context.Context, *Server) error) int {
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.usage(stdout, intro)
		return exitOK
	case errors.Is(err, errVersion):
		fmt.Fprintf(stdout, "%s %s\n", f.Name(), version)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v; see %s --help\n", f.Name(), err, f.Name())
		return exitUsage
	}
	if err := f.run(stderr, run); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", f.Name(), err)
		return exitFailed
	}
	return exitOK
}

func (f *Flags) run(stderr io.Writer, run func(context.Context, *Server) error) error {
	// Before anything else: a SIGHUP that came earlier would end the program.
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := endWithParent(); err != nil {
		return err
	}
	s := &Server{Logs: log.New(stderr, f.Name()+": ", 0), Again: again, flags: f}
	if f.Watchdog > 0 {
		var err error
		if s.dog, err = watchdog.Start(f.Watchdog); err != nil {
			return err
		}
	}
	return run(stop, s)
}

// PutOff says that the program is well, where it serves nothing that could be asked.
func (s *Server) PutOff() error { return s.dog.PutOff() }

// endWithParent has the kernel send SIGTERM when the parent dies. A supervisor
// that is killed cannot stop its services; one that lived on would hold the
// port, and its successor could never start.
//
// The kernel keeps the request with the thread that made it, and acts when the
// parent's thread that started this process ends. Go ends no thread but one that
// a goroutine was locked to; there is none here and none in Pebble. The signal is
// dropped when a program changes its user, so nothing may do so after this.
func endWithParent() error {
	parent := os.Getppid()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot ask for a signal at the parent's end: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("cannot go on: the process that started this one has ended")
	}
	return nil
}
