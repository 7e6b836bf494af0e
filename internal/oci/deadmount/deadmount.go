// Package deadmount detects directories that could hang: roots of mounts that a server or a
// program provides. It probes such a directory with a time limit, because a process that
// waits for a dead server cannot be killed, and this includes runc. For all other
// directories it asks only the kernel.
package deadmount

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/procfile"
)

// MayHang reports whether an access to a directory could wait forever, from statx with
// STATX_TYPE and STATX_MNT_ID.
func MayHang(st unix.Statx_t) bool {
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 || st.Dev_major != 0 {
		return false
	}
	local := []string{"bcachefs", "btrfs", "overlay", "ramfs", "shiftfs", "tmpfs", "virtiofs", "zfs"}
	return st.Mask&unix.STATX_MNT_ID == 0 || !slices.Contains(local, typeOfMount(st.Mnt_id))
}

// typeOfMount looks up a mount in /proc/self/mountinfo (proc(5)) and returns "" if it is
// missing. It reads only data of the kernel.
func typeOfMount(id uint64) string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	return procfile.TypeOfMount(f, int(id))
}

// Command makes this program probe one directory and exit, see AnswerProbe.
const Command = "wrapper-probe"

// Probe accesses a directory in a separate process, which is this program with Command, and
// kills the process after the limit. It returns why the directory cannot be used, and "" if
// it can.
func Probe(path string, limit time.Duration) string {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "can't be asked: " + err.Error()
	}
	defer null.Close()
	p, err := os.StartProcess("/proc/self/exe", []string{"runc-amd-wrapper", Command, path},
		&os.ProcAttr{Dir: "/", Env: []string{}, Files: []*os.File{null, null, null}})
	if err != nil {
		return "can't be asked: " + err.Error()
	}
	answer := make(chan string, 1)
	go func() {
		state, err := p.Wait()
		switch {
		case err != nil:
			answer <- "can't be asked: " + err.Error()
		case state.ExitCode() != 0:
			answer <- "can't be read: " + unix.Errno(state.ExitCode()).Error()
		default:
			answer <- ""
		}
	}()
	select {
	case why := <-answer:
		return why
	case <-time.After(limit):
		why := "does not answer within " + limit.String() + ": what serves it looks dead"
		if err := p.Kill(); err != nil {
			why += " (and " + err.Error() + ")"
		}
		return why
	}
}

// AnswerProbe accesses the directory for Probe. It returns the exit status, which is the
// error's number.
func AnswerProbe(path string) int {
	var st unix.Stat_t
	errno, _ := errors.AsType[unix.Errno](unix.Stat(path, &st)) // it has no other errors
	return int(errno)
}
