package notice

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/procfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Reasons that a task gets no notice.
var (
	errNoTask  = errors.New("only its first process runs in it")
	errFull    = errors.New("its output takes nothing now")
	errNowhere = errors.New("its output is neither a terminal nor a pipe that Concourse reads")
)

// devpts and pipefs are types of file systems (statfs(2)). A terminal in devpts has the
// major number of UNIX98_PTY_SLAVE_MAJOR, and its own number as the minor
// (fs/devpts/inode.c).
const (
	devpts, pipefs = 0x1cd1, 0x50495045
	terminal       = 136
)

// Limits of the search.
const (
	maxCalled    = 16   // processes that Concourse started in one container
	maxOpenFiles = 4096 // of one process
)

// Tasks accesses the tasks in a machine's containers.
type Tasks struct {
	// Leases finds a container's processes.
	Leases lease.Leases
}

func (t Tasks) proc(parts ...string) string {
	root := t.Leases.Proc
	root = cmp.Or(root, "/proc")
	return filepath.Join(append([]string{root}, parts...)...)
}

// notify writes a line into the output of a container's task, as the build shows it: the
// output of the first process that Concourse started, which is a child of the shim.
func (t Tasks) notify(c container, text string) error {
	if len(c.tasks) == 0 {
		return errNoTask
	}
	why := errNowhere
	called := 0
	for _, p := range c.tasks {
		shim, err := t.parent(p)
		if err != nil || shim == c.init.PID ||
			slices.ContainsFunc(c.tasks, func(o lease.Process) bool { return o.PID == shim }) {
			continue
		}
		if called++; called > maxCalled {
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

// parent returns a process's parent.
func (t Tasks) parent(p lease.Process) (int, error) {
	text, err := os.ReadFile(t.proc(strconv.Itoa(p.PID), "stat"))
	if err != nil {
		return 0, err
	}
	stat, err := procfile.ParseStat(string(text))
	return stat.Parent, err
}

// write writes a line once and does not wait. A pipe gets all of it or nothing. The line
// begins with a newline, because the task may have written part of a line.
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

// open opens a descriptor of a process without a right to read or write. It accepts only a
// terminal, or a pipe that the shim reads. A task can put any file there, and a file system
// of its own may never answer. So the file itself is not accessed until its type is known.
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
	if there, err := t.Leases.Alive(p); err != nil || !there { // otherwise another process has its number
		return -1, 0, errors.Join(err, errNoTask)
	}
	own := "/proc/self/fd/" + strconv.Itoa(fd)
	name, err := os.Readlink(own)
	if err != nil {
		return -1, 0, err
	}
	// Files with a path begin with "/", pipes without a name do not.
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
	if other == "" || !t.hasOtherEnd(shim, other) {
		return -1, 0, errNowhere
	}
	return fd, st.Uid, nil
}

// fileSystem returns the type of an open file's file system, from the mounts that the
// process sees.
func (t Tasks) fileSystem(pid string, fd int) string {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return ""
	}
	id, err := strconv.Atoi(field(string(info), "mnt_id:"))
	if err != nil {
		return ""
	}
	mounts, err := os.Open(t.proc(pid, "mountinfo"))
	if err != nil {
		return ""
	}
	defer mounts.Close()
	return procfile.TypeOfMount(mounts, id)
}

// field returns a value in /proc/PID/fdinfo/FD.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// hasOtherEnd reports whether a process has the other end: the reading end of a pipe with
// this name, or the master of the terminal with this number.
func (t Tasks) hasOtherEnd(pid int, other string) bool {
	dir := t.proc(strconv.Itoa(pid))
	f, err := os.Open(filepath.Join(dir, "fd"))
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxOpenFiles)
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

// reopen opens a file for writing. The file may belong to the task's user, and root may not
// always write to such files. Then this thread opens it as that user, and is discarded
// afterwards.
func reopen(file int, owner uint32) (fd int, err error) {
	path := "/proc/self/fd/" + strconv.Itoa(file)
	const flags = unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	if fd, err = unix.Open(path, flags, 0); !errors.Is(err, unix.EACCES) {
		return fd, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // it is never unlocked
		if err = unix.Setfsuid(int(owner)); err == nil {
			fd, err = unix.Open(path, flags, 0)
		}
	}()
	<-done
	return fd, err
}
