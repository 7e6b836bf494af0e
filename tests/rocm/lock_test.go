//go:build e2e

package rocm

import (
	"os"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// patience bounds each wait.
const patience = 2 * time.Minute

func rename(from, to string) error { return os.Rename(from, to) }

// hold takes a lock of apt's as another apt does. met waits until someone has come to it
// and failed, which the second opening of the file shows; free gives it back.
func (u *unit) hold(path string) (met func() bool, free func()) {
	u.t.Helper()
	f, err := os.OpenFile(u.Root.Path(path), os.O_RDWR|os.O_CREATE, 0o640)
	require.NoError(u.t, err)
	require.NoError(u.t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	require.NoError(u.t, err)
	events := os.NewFile(uintptr(watch), "inotify")
	u.t.Cleanup(func() { events.Close() })
	_, err = unix.InotifyAddWatch(watch, u.Root.Path(path), unix.IN_OPEN)
	require.NoError(u.t, err)
	require.NoError(u.t, events.SetReadDeadline(time.Now().Add(patience)))
	met = func() bool {
		for opened := 0; opened < 2; {
			var buffer [unix.SizeofInotifyEvent]byte // the file itself is watched: events have no name
			n, err := events.Read(buffer[:])
			if err != nil {
				return false
			}
			opened += n / unix.SizeofInotifyEvent
		}
		return true
	}
	return met, func() { require.NoError(u.t, f.Close()) }
}
