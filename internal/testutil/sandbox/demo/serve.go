package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// noWait returns the reason to end without serving the status page, or "" on a terminal of a
// person.
func noWait(out io.Writer, env func(string) string) string {
	if env("CI") != "" {
		return "CI is set"
	}
	if env("NO_SERVE") != "" {
		return "NO_SERVE is set"
	}
	if f, ok := out.(*os.File); ok {
		// A dumb terminal is a terminal: it has Ctrl-C.
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
			return ""
		}
	}
	return "the output is not a terminal"
}

// serve waits with the running exporter until Ctrl-C, which is a success.
func (d *demo) serve() error {
	_, port, err := net.SplitHostPort(d.pebble.addr)
	if err != nil {
		return err
	}
	d.screen.title("Your turn: the status page of the stand-in GPU")
	d.screen.item("page", "http://%s/", d.pebble.addr)
	d.screen.item("metrics", "http://%s/metrics", d.pebble.addr)
	d.screen.item("over ssh", "first run on your machine: ssh -L %s:%s USER@HOST", port, d.pebble.addr)
	d.screen.item("Ctrl-C", "ends the demo and removes its folder")
	select {
	case <-d.ctx.Done():
	case <-d.pebble.ended:
		return errors.New("cannot serve the status page: Pebble ended")
	}
	cause := context.Cause(d.ctx)
	if cause == (interrupted{syscall.SIGINT}) {
		d.screen.line("") // after the ^C of the terminal
		return nil
	}
	return cause
}

// takeTerminal makes this process a separate foreground group, so that only the demo gets
// Ctrl-C: make would report the same Ctrl-C as an error. restore gives the terminal back.
func takeTerminal() (restore func()) {
	restore = func() {}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return restore
	}
	fd := int(tty.Fd())
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() || group == os.Getpid() {
		tty.Close()
		return restore
	}
	// A process outside the foreground gets SIGTTOU when it sets the foreground. Ctrl-Z
	// would stop only the demo, and the shell would not notice.
	signal.Ignore(syscall.SIGTTOU, syscall.SIGTSTP)
	restore = func() {
		unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group)
		unix.Setpgid(0, group)
		tty.Close()
	}
	if err := unix.Setpgid(0, 0); err != nil {
		return restore
	}
	unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, os.Getpid())
	return restore
}
