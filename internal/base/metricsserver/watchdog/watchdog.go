// Package watchdog ends a program that no longer answers its own health check.
// A timer of the kernel's is set to kill the process and is put off as long as
// the check is answered. So it needs no other process, and works where nothing
// in this one runs any more: stopped, frozen, or all of it waiting. It never
// looks at what the program is for: that a GPU hangs is no reason to end.
package watchdog

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Watchdog is a timer that is running.
type Watchdog struct {
	timer timer
	limit time.Duration
}

// asks is how often the check is made within the limit, and so how often it may
// fail, or be late, before the end.
const asks = 4

// Start sets the timer: the process is killed after the limit, unless Watch puts
// it off. So it may be started before anything that could hang.
func Start(limit time.Duration) (*Watchdog, error) {
	t, err := newTimer()
	if err != nil {
		return nil, fmt.Errorf("cannot make the watchdog's timer: %w", err)
	}
	if err := t.set(limit); err != nil {
		return nil, fmt.Errorf("cannot set the watchdog's timer: %w", err)
	}
	return &Watchdog{timer: t, limit: limit}, nil
}

// PutOff sets the end to the limit from now. A nil Watchdog has none.
func (w *Watchdog) PutOff() error {
	if w == nil {
		return nil
	}
	return w.timer.set(w.limit)
}

// Watch makes the check, one after the other, and puts the end off at each that
// returns nil. It tells say when checks begin to fail, and never returns.
func (w *Watchdog) Watch(check func(within time.Duration) error, say func(format string, v ...any)) {
	every := w.limit / asks
	failing := false
	for tick := time.Tick(every); ; <-tick {
		err := check(every)
		if err == nil {
			err = w.PutOff()
		}
		if err != nil && !failing {
			say("the health check fails, %s of that end this program: %v", w.limit, err)
		}
		failing = err != nil
	}
}

// Answers is the check of an HTTP server: a request for path on a connection of
// its own, as a supervisor would make it. Any answer will do, as one in plain HTTP is
// all that a server with TLS or passwords has for it. address may lack a host.
func Answers(address, path string) func(within time.Duration) error {
	return func(within time.Duration) error {
		deadline := time.Now().Add(within)
		conn, err := net.DialTimeout("tcp", address, within)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", path); err != nil {
			return err
		}
		line, err := bufio.NewReaderSize(conn, 512).ReadString('\n')
		if err != nil {
			return err
		}
		if !strings.HasPrefix(line, "HTTP/") {
			return errors.New("the answer is not HTTP")
		}
		return nil
	}
}
