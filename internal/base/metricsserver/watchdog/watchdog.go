// Package watchdog ends a program that no longer answers its own health check. A timer of
// the kernel would kill the process, and each answered check postpones it. So the watchdog
// needs no other process, and works if this one is stopped, frozen or blocked. It never
// checks the program's purpose: a hung GPU is not a reason to end.
package watchdog

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watchdog represents a running timer.
type Watchdog struct {
	timer timer
	limit time.Duration
}

// checksInLimit is the number of checks within the limit. The program ends only after that
// many failed or late checks.
const checksInLimit = 4

// Start sets the timer. The process is killed after the limit, unless Watch postpones it.
// So Start may come before any code that could hang.
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

// Postpone restarts the limit. A nil Watchdog has none.
func (w *Watchdog) Postpone() error {
	if w == nil {
		return nil
	}
	return w.timer.set(w.limit)
}

// Watch runs the check repeatedly, and postpones the end each time it returns nil. It calls
// logf when checks begin to fail. It never returns.
func (w *Watchdog) Watch(check func(within time.Duration) error, logf func(format string, v ...any)) {
	every := w.limit / checksInLimit
	failing := false
	for tick := time.Tick(every); ; <-tick {
		err := check(every)
		if err == nil {
			err = w.Postpone()
		}
		if err != nil && !failing {
			logf("the health check fails, %s of that end this program: %v", w.limit, err)
		}
		failing = err != nil
	}
}

// Answers returns the check of an HTTP server: a request for path on a separate connection,
// as a supervisor makes it. Any answer is accepted, because a server with TLS or passwords
// answers plain HTTP only with an error. address may lack a host.
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

// timer wraps a POSIX timer of the process (timer_create(2)) that sends SIGKILL, which also
// ends stopped processes.
type timer struct{ id int32 }

// event mirrors the kernel's struct sigevent (include/uapi/asm-generic/siginfo.h) on
// machines with 64 bits.
type event struct {
	value  uint64
	signal int32
	notify int32 // 0: SIGEV_SIGNAL, to the process
	_      [48]byte
}

// newTimer creates a stopped timer. It counts the time in which the machine is awake.
func newTimer() (timer, error) {
	var t timer
	e := event{signal: int32(unix.SIGKILL)}
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&e)),
		uintptr(unsafe.Pointer(&t.id)))
	if errno != 0 {
		return t, errno
	}
	return t, nil
}

// set lets the timer expire after d, whatever it was set to.
func (t timer) set(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	_, _, errno := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(t.id), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
