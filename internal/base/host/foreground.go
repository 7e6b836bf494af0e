package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Statuses of a shell for programs that cannot be started.
const (
	StatusNotExecutable = 126
	StatusNotFound      = 127
)

// passed lists the signals that Foreground passes on. A stop by the terminal reaches both
// processes.
var passed = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGWINCH, unix.SIGUSR1,
	unix.SIGUSR2, unix.SIGCONT}

// Foreground runs a program in place of this one: with its terminal, streams and process
// group. It passes signals on and returns the exit status as a shell does: 128 and the
// number of a signal. With an error the program was not started, and status is 126 or 127.
func Foreground(argv, env []string) (status int, err error) {
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = env
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	// A signal that is ignored, as by nohup, stays so for the program.
	caught := slices.DeleteFunc(slices.Clone(passed), signal.Ignored)
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, caught...)
	defer signal.Stop(signals)
	if err := c.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return StatusNotFound, fmt.Errorf("cannot start %s: not found", argv[0])
		}
		return StatusNotExecutable, fmt.Errorf("cannot start %s: %w", argv[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case s := <-signals:
			if !fromTerminal(s) {
				_ = c.Process.Signal(s) // an error means that it has ended
			}
		case err := <-ended:
			return exitStatus(err)
		}
	}
}

func exitStatus(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 1, err
	}
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// fromTerminal reports whether a signal came from the terminal, which sends it to the whole
// process group in the foreground, and so to the program too.
func fromTerminal(s os.Signal) bool {
	if s != unix.SIGINT && s != unix.SIGQUIT && s != unix.SIGWINCH {
		return false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
