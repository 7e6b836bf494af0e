// Package program is what the programs that serve metrics have in common: they
// print their flags the same way, end with their parent, listen, limit connections
// and how many scrapes run at once, compress for who asks, and drain when told to stop. It
// knows no metric.
package program

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit statuses. A failed start must not be 0: the supervisor takes that for
// work that is done.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// Usage prints the intro, which ends in an empty line, and every flag with its
// default.
func Usage(w io.Writer, fs *flag.FlagSet, intro string) {
	fmt.Fprint(w, intro)
	fs.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		line := "  --" + f.Name
		if value != "" {
			line += "=" + strings.ToUpper(value)
		}
		if f.DefValue != "" && f.DefValue != "false" {
			text += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "%-34s %s\n", line, text)
	})
	fmt.Fprintf(w, "%-34s %s\n", "  --help", "print this text and exit")
}

// EndWithParent has the kernel send SIGTERM when the parent dies. A supervisor
// that is killed cannot stop its services; one that lived on would hold the
// port, and its successor could never start.
//
// The kernel keeps the request with the thread that made it, and acts when the
// parent's thread that started this process ends. Go ends no thread but one that
// a goroutine was locked to; there is none here and none in Pebble. The signal is
// dropped when a program changes its user, so nothing may do so after this.
func EndWithParent() error {
	parent := os.Getppid()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot ask for a signal at the parent's end: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("cannot go on: the process that started this one has ended")
	}
	return nil
}

// Listen listens on a TCP address, such as ":9358".
func Listen(address string) (*net.TCPListener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, cause(err))
	}
	return l.(*net.TCPListener), nil // by the name of the network
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
