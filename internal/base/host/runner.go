package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Command is one external program to run. It is a value: planning can print
// it and tests can compare it.
type Command struct {
	Argv     []string
	Env      []string      // added to the process's own, KEY=value
	Stdin    []byte        // secrets travel here or in root-only files, never in Argv
	Deadline time.Duration // 0 means DefaultDeadline
	ReadOnly bool          // changes nothing, so it may run while planning
	// Tail, where it is not 0, is how many bytes are kept of what it writes, the last
	// ones: of standard output and error together, which are then both the output.
	Tail int
	// Shown has what it writes go to this process's standard error as well, while it runs.
	Shown bool
}

// String is the command as a person would type it.
func (c Command) String() string { return strings.Join(c.Argv, " ") }

// DefaultDeadline bounds a command that names no deadline of its own.
const DefaultDeadline = time.Minute

// Runner runs commands. It returns standard output; an error is a *CommandError.
type Runner interface {
	Run(ctx context.Context, c Command) ([]byte, error)
}

// CommandError is how every failed command looks.
type CommandError struct {
	Argv    []string
	Code    int    // exit status; -1 when it did not start, was killed or timed out
	Stderr  string // trimmed
	Timeout time.Duration
	Err     error
	// Ended is closed when a process ends that did not when it was killed, and was
	// abandoned; nil for all others.
	Ended <-chan struct{}
}

func (e *CommandError) Error() string {
	what := fmt.Sprintf("exit %d", e.Code)
	switch {
	case e.Timeout > 0:
		what = fmt.Sprintf("gave up after %s", e.Timeout)
	case e.Code < 0:
		what = e.Err.Error()
	}
	if e.Stderr != "" {
		what += ": " + e.Stderr
	}
	return fmt.Sprintf("cannot run %q: %s", strings.Join(e.Argv, " "), what)
}

func (e *CommandError) Unwrap() error { return e.Err }

// LastLine is the last line that the command wrote to stderr, for a status.
func (e *CommandError) LastLine() string {
	return e.Stderr[strings.LastIndexByte(e.Stderr, '\n')+1:]
}

// Exec is the Runner of a real machine. Programs are looked up on PATH.
type Exec struct{}

// Run starts the command in a process group of its own. At its deadline the
// group is killed and, should it hang in the kernel all the same (state D, as
// GPU tools do on a hung GPU), abandoned: Run returns in any case.
func (Exec) Run(ctx context.Context, c Command) ([]byte, error) {
	limit := c.Deadline
	if limit == 0 {
		limit = DefaultDeadline
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, errb tail
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = &out, &errb
	if c.Shown {
		cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, os.Stderr), io.MultiWriter(&errb, os.Stderr)
	}
	if out.limit = c.Tail; c.Tail > 0 {
		cmd.Stderr = cmd.Stdout // one writer for both is one pipe for both
	}
	if len(c.Stdin) > 0 { // else /dev/null, which needs no pipe
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	fail := func(code int, err error) *CommandError {
		return &CommandError{Argv: c.Argv, Code: code, Err: err}
	}
	if err := cmd.Start(); err != nil {
		return nil, fail(-1, err)
	}
	done, ended := make(chan error, 1), make(chan struct{})
	go func() {
		done <- cmd.Wait()
		close(ended)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		e := fail(-1, ctx.Err())
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			e.Timeout = limit
		}
		select {
		case <-done:
			e.Stderr = errb.text()
		case <-time.After(2 * time.Second): // abandoned; its buffers are not ours to read
			e.Ended = ended
			return nil, e
		}
		return out.Bytes(), e
	}
	// A service that a command left running may hold its output open; that is
	// no failure of the command, which had ended well.
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		e := fail(-1, err)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			e.Code = exit.ExitCode()
		}
		e.Stderr = errb.text()
		return out.Bytes(), e
	}
	return out.Bytes(), nil
}
