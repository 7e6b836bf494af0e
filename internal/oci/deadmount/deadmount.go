// Package deadmount tells whether a directory is the root of a mount that some server or
// program stands behind, and asks such a one with a limit: whoever waits for a dead server
// can't be woken, runc neither. It asks nothing but the kernel of all others.
package deadmount

import (
	"bufio"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Possible tells by statx of a directory, with STATX_TYPE and STATX_MNT_ID, whether
// somebody could be asked who never answers.
func Possible(st unix.Statx_t) bool {
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 || st.Dev_major != 0 {
		return false
	}
	local := []string{"bcachefs", "btrfs", "overlay", "ramfs", "shiftfs", "tmpfs", "virtiofs", "zfs"}
	return st.Mask&unix.STATX_MNT_ID == 0 || !slices.Contains(local, typeOfMount(st.Mnt_id))
}

// typeOfMount looks a mount up in /proc/self/mountinfo (proc(5)); "" when it
// is not there. Only the kernel is asked.
func typeOfMount(id uint64) string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	prefix := strconv.FormatUint(id, 10) + " "
	for r := bufio.NewReaderSize(f, 1<<16); ; {
		line, err := r.ReadString('\n')
		if strings.HasPrefix(line, prefix) {
			_, after, _ := strings.Cut(line, " - ")
			kind, _, _ := strings.Cut(after, " ")
			return kind
		}
		if err != nil {
			return ""
		}
	}
}

// Command makes this program ask one directory and exit, see Answer.
const Command = "wrapper-probe"

// Ask asks a directory in a process of its own, which is this program with Command, and
// leaves that alone when there is no answer in time. It returns why the directory can't be
// used; "" when it can.
func Ask(path string, limit time.Duration) string {
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

// Answer is the other side. The exit status is the error's number.
func Answer(path string) int {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		var errno unix.Errno
		if errors.As(err, &errno) {
			return int(errno) & 0xff
		}
		return 1
	}
	return 0
}
