package tasknotice

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/pool/lease"
)

// Why a task is not told.
var (
	errNoTask  = errors.New("no process runs in it besides its first one")
	errFull    = errors.New("its output takes nothing now")
	errNowhere = errors.New("its output is neither a terminal nor a pipe that Concourse reads")
)

// devpts and pipefs are types of file systems (statfs(2)); a terminal in devpts has the
// major number of UNIX98_PTY_SLAVE_MAJOR, and its own as the minor (fs/devpts/inode.c).
const (
	devpts, pipefs = 0x1cd1, 0x50495045
	terminal       = 136
)

// Limits on what is looked at.
const (
	mostCalled = 16   // processes that Concourse started in one container
	mostFiles  = 4096 // of one process
)

// Tasks are those of a machine's containers.
type Tasks struct {
	// Leases finds a container's processes.
	Leases lease.Leases
}

func (t Tasks) proc(parts ...string) string {
	root := t.Leases.Proc
	if root == "" {
		root = "/proc"
	}
	return filepath.Join(append([]string{root}, parts...)...)
}

// tell writes a line into the output of a container's task, as it stands there for the
// build: that of the first process which Concourse started, the shim's child.
func (t Tasks) tell(c container, text string) error {
	if len(c.tasks) == 0 {
		return errNoTask
	}
	why := errNowhere
	called := 0
	for _, p := range c.tasks {
		shim, err := t.parent(p)
		if err != nil || shim == c.init.PID || slices.ContainsFunc(c.tasks, func(o lease.Process) bool { return o.PID == shim }) {
			continue
		}
		if called++; called > mostCalled {
			break
		}
		for _, number := range []string{"1", "2"} {
			err := t.write(p, number, shim, text)
			if err == nil {
				return nil
			}
			if !errors.Is(err, errNowhere) {
				why = err
			}
		}
	}
	return why
}

// parent is a process's parent (/proc/PID/stat, field 4).
func (t Tasks) parent(p lease.Process) (int, error) {
	text, err := os.ReadFile(t.proc(strconv.Itoa(p.PID), "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	if len(fields) < 2 {
		return 0, errors.New("it has no parent")
	}
	return strconv.Atoi(fields[1])
}

// write writes once, all or nothing where it is a pipe, and waits for nobody. The line is
// one of its own, whatever the task has written so far.
func (t Tasks) write(p lease.Process, number string, shim int, text string) error {
	file, owner, err := t.open(p, number, shim)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	fd, err := reopen(file, owner)
	if err != nil {
		return fmt.Errorf("cannot open its output: %w", err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("\n"+text+"\n"))
	if errors.Is(err, unix.EAGAIN) {
		return errFull
	}
	if err != nil {
		return fmt.Errorf("cannot write into its output: %w", err)
	}
	return nil
}

// open opens what a process has as a descriptor, without a right to read or write, where
// that is a terminal or a pipe whose other end the shim has. A task can put there what it
// likes, and a file system of its own may never answer: until it is known what it is,
// the file itself is asked nothing.
func (t Tasks) open(p lease.Process, number string, shim int) (fd int, owner uint32, err error) {
	pid := strconv.Itoa(p.PID)
	fd, err = unix.Open(t.proc(pid, "fd", number), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) { // closed
			err = errNowhere
		}
		return -1, 0, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if there, err := t.Leases.Alive(p); err != nil || !there { // else another has its number
		return -1, 0, errors.Join(err, errNoTask)
	}
	own := "/proc/self/fd/" + strconv.Itoa(fd)
	name, err := os.Readlink(own)
	if err != nil {
		return -1, 0, err
	}
	// Files of a path begin with "/", pipes without a name do not.
	if pipe := strings.HasPrefix(name, "pipe:["); !pipe && t.fileSystem(pid, fd) != "devpts" {
		return -1, 0, errNowhere
	}
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err != nil {
		return -1, 0, err
	}
	other := ""
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFIFO && fs.Type == pipefs:
		other = name
	case st.Mode&unix.S_IFMT == unix.S_IFCHR && fs.Type == devpts && unix.Major(st.Rdev) == terminal:
		other = "tty-index:" + strconv.Itoa(int(unix.Minor(st.Rdev)))
	}
	if other == "" || !t.has(shim, other) {
		return -1, 0, errNowhere
	}
	return fd, st.Uid, nil
}

// fileSystem is the type of the one that an open file is on, as the mounts that the
// process sees tell.
func (t Tasks) fileSystem(pid string, fd int) string {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile(t.proc(pid, "mountinfo"))
	if err != nil {
		return ""
	}
	return typeOf(string(mounts), field(string(info), "mnt_id:"))
}

// typeOf finds a mount in /proc/PID/mountinfo by its id; the type is after " - ".
func typeOf(mounts, id string) string {
	for line := range strings.Lines(mounts) {
		if first, rest, _ := strings.Cut(line, " "); first == id && id != "" {
			_, after, _ := strings.Cut(rest, " - ")
			kind, _, _ := strings.Cut(after, " ")
			return kind
		}
	}
	return ""
}

// field is a value in /proc/PID/fdinfo/FD.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// has tells whether a process has the other end: a pipe's, which it reads, by the pipe's
// name, or a terminal's master by the terminal's number.
func (t Tasks) has(pid int, other string) bool {
	dir := t.proc(strconv.Itoa(pid))
	f, err := os.Open(filepath.Join(dir, "fd"))
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(mostFiles)
	index, master := strings.CutPrefix(other, "tty-index:")
	return slices.ContainsFunc(names, func(name string) bool {
		link, err := os.Readlink(filepath.Join(dir, "fd", name))
		if err != nil || master && !strings.HasSuffix(link, "/ptmx") || !master && link != other {
			return false
		}
		text, err := os.ReadFile(filepath.Join(dir, "fdinfo", name))
		info := string(text)
		if master {
			return err == nil && field(info, "tty-index:") == index
		}
		flags, err := strconv.ParseUint(field(info, "flags:"), 8, 32)
		return err == nil && flags&(unix.O_ACCMODE|unix.O_PATH) == unix.O_RDONLY
	})
}

// reopen opens a file for writing. It may belong to the task's user, and root is not
// always one who may write to others' files: then it is opened as that user, by this
// thread alone, which is thrown away.
func reopen(file int, owner uint32) (fd int, err error) {
	path := "/proc/self/fd/" + strconv.Itoa(file)
	const flags = unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	if fd, err = unix.Open(path, flags, 0); !errors.Is(err, unix.EACCES) {
		return fd, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and it is never unlocked
		if err = unix.Setfsuid(int(owner)); err == nil {
			fd, err = unix.Open(path, flags, 0)
		}
	}()
	<-done
	return fd, err
}
