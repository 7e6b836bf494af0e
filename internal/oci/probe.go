package oci

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

// noSync asks for what the kernel knows, without a word to a server.
const noSync = unix.AT_STATX_DONT_SYNC | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT

// answerTime is how long a network file system may take to answer.
const answerTime = 2 * time.Second

// inspectDir asks the kernel for what whyUnusable needs, and nobody else.
func (m *machine) inspectDir(path string) (st unix.Statx_t, err error) {
	return st, m.statx(unix.AT_FDCWD, path, noSync, unix.STATX_TYPE|unix.STATX_MNT_ID, &st)
}

// whyUnusable tells whether runc would hang at the directory; "" when not. The
// directory itself is asked only where it is the root of a mount that some
// server or program stands behind, and then by another process: one that waits
// for a dead server can't be woken.
func (m *machine) whyUnusable(path string, st unix.Statx_t) string {
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 || st.Dev_major != 0 {
		return ""
	}
	local := []string{"bcachefs", "btrfs", "overlay", "ramfs", "shiftfs", "tmpfs", "virtiofs", "zfs"}
	if st.Mask&unix.STATX_MNT_ID != 0 && slices.Contains(local, typeOfMount(st.Mnt_id)) {
		return ""
	}
	return m.probe(path, answerTime)
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

// probeCommand makes this program ask one directory and exit.
const probeCommand = "wrapper-probe"

// probe asks a directory in a process of its own, and leaves that alone when
// there is no answer in time. It returns why the directory can't be used.
func probe(path string, limit time.Duration) string {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "can't be asked: " + err.Error()
	}
	defer null.Close()
	p, err := os.StartProcess("/proc/self/exe", []string{"runc-amd-wrapper", probeCommand, path},
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

// answerProbe is the other side. The exit status is the error's number.
func answerProbe(path string) int {
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
