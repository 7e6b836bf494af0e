package host

import (
	"bufio"
	"errors"
	"os/exec"
	"syscall"
	"time"
)

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
