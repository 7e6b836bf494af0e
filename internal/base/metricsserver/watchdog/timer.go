package watchdog

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
