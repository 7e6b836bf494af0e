package host

import (
	"bufio"
	"bytes"
	"cmp"
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

// Command describes one external program to run. Plans can print it and tests can compare
// it.
type Command struct {
	Argv     []string
	Env      []string      // added to the process's environment, KEY=value
	Stdin    []byte        // for secrets, which may also be in root-only files, but never in Argv
	Deadline time.Duration // 0 means DefaultDeadline
	ReadOnly bool          // changes nothing, so planning may run it
	// Tail, if not 0, is the number of last bytes to keep of standard output and error
	// together. The result is then both.
	Tail int
	// Shown also copies the output to this process's standard error while it runs.
	Shown bool
}

// String returns the command as a person would type it.
func (c Command) String() string { return strings.Join(c.Argv, " ") }

// DefaultDeadline bounds a command without a Deadline.
const DefaultDeadline = time.Minute

// Runner runs commands. Run returns standard output, and its error is a *CommandError.
type Runner interface {
	Run(ctx context.Context, c Command) ([]byte, error)
}

// CommandError reports a failed command.
type CommandError struct {
	Argv    []string
	Code    int    // exit status; -1 if it did not start, was killed or timed out
	Stderr  string // trimmed
	Timeout time.Duration
	Err     error
	// Ended is closed when an abandoned process ends, which did not end when it was killed.
	// It is nil for all others.
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

// LastLine returns the last line of stderr, for a status.
func (e *CommandError) LastLine() string {
	return e.Stderr[strings.LastIndexByte(e.Stderr, '\n')+1:]
}

// Exec runs commands of a real machine. It looks programs up on PATH.
type Exec struct{}

// Run starts the command in a separate process group. At its deadline the group is killed.
// If the process then hangs in the kernel (state D, as GPU tools do on a hung GPU), it is
// abandoned, so Run always returns.
func (Exec) Run(ctx context.Context, c Command) ([]byte, error) {
	limit := c.Deadline
	limit = cmp.Or(limit, DefaultDeadline)
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
		cmd.Stderr = cmd.Stdout // one writer for both means one pipe for both
	}
	if len(c.Stdin) > 0 { // otherwise /dev/null, which needs no pipe
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
		case <-time.After(2 * time.Second): // abandoned; its buffers are still in use
			e.Ended = ended
			return nil, e
		}
		return out.Bytes(), e
	}
	// A service that the command started may keep the output open. That is not a failure,
	// because the command itself ended successfully.
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		e := fail(-1, err)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			e.Code = exit.ExitCode()
		}
		e.Stderr = errb.text()
		return out.Bytes(), e
	}
	return out.Bytes(), nil
}

// tail keeps the last bytes written to it, or all. The buffer is not embedded, because its
// ReadFrom would keep everything.
type tail struct {
	b     bytes.Buffer
	limit int // 0: keep everything
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	n, err := t.b.Write(p)
	if t.limit > 0 && t.b.Len() > 2*t.limit { // not at each write, because this copies the rest
		t.b.Next(t.b.Len() - t.limit)
	}
	return n, err
}

// Bytes returns the kept bytes.
func (t *tail) Bytes() []byte {
	b := t.b.Bytes()
	if t.limit > 0 && len(b) > t.limit {
		b = b[len(b)-t.limit:]
	}
	return b
}

func (t *tail) text() string { return strings.TrimSpace(string(t.Bytes())) }

// Detach starts a program in a separate session and does not wait for it. The program
// outlives this process and does not inherit its outputs. Its new parent reaps it.
func Detach(program string, args ...string) error {
	c := exec.Command(program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", program, err)
	}
	return c.Process.Release()
}

// Attached runs a program with these streams, for programs that a user must be able to
// answer, such as ssh. It has no deadline but the context's. A nil stdin is empty. Its error
// is a *CommandError without the output.
func Attached(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = stdin, stdout, stderr
	err := c.Run()
	if err == nil {
		return nil
	}
	failed := &CommandError{Argv: argv, Code: -1, Err: err}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		failed.Code = exit.ExitCode()
	}
	return failed
}

// Answer starts a program in a separate session, writes in to it, and returns the one line
// that it writes. It waits for the line and not for the process, which it then kills but
// which may hang in the kernel. After limit it returns no line and no error.
func Answer(argv []string, in []byte, limit time.Duration) (line []byte, pid int, err error) {
	c := exec.Command(argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	to, err := c.StdinPipe()
	if err != nil {
		return nil, 0, err
	}
	from, err := c.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := c.Start(); err != nil {
		return nil, 0, err
	}
	answered := make(chan []byte, 1)
	go func() {
		_, failed := to.Write(in)
		failed = errors.Join(failed, to.Close())
		got, unread := bufio.NewReader(from).ReadBytes('\n')
		if errors.Join(failed, unread) != nil {
			got = nil
		}
		answered <- got
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case line = <-answered:
		if line == nil {
			err = errors.New("no answer")
		}
	case <-late.C:
	}
	_ = c.Process.Kill() // an error means that it has ended
	go func() { _ = c.Wait() }()
	return line, c.Process.Pid, err
}
