package rungroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Move moves a process with all its threads into a group. The processes that it started
// before stay outside, and those that it starts from now on are inside. The kernel waits for
// a grace period of some 10 ms, unless a process was moved just before. This is most of the
// time that a run adds to its command. Only a clone into the group avoids it, for which the
// client needs rights on its own group.
func (t Tree) Move(dir string, p lease.Process) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return fmt.Errorf("cannot move process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	there, err := lease.Leases{Proc: t.Proc}.Alive(p)
	if err == nil && !there {
		err = errors.New("it has ended")
	}
	if err == nil {
		err = write(dir, p.PID)
	}
	if err != nil {
		return fmt.Errorf("cannot move process %d: %w", p.PID, err)
	}
	// If the process ended in between, its number may be another process's, which must not
	// stay in the group.
	if ended(fd) {
		return errors.Join(fmt.Errorf("cannot move process %d: it has ended", p.PID), t.Empty(dir, filepath.Dir(dir)))
	}
	return nil
}

func write(dir string, pid int) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// ended reports whether the process of a pidfd has ended.
func ended(pidfd int) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}

// DirOf returns the directory of a process's group.
func (t Tree) DirOf(pid int) (string, error) {
	path, err := t.groupOf(pid)
	return filepath.Join(t.Mount, path), err
}

// Empty moves all processes of a group to another one. The number 0 would mean this process.
func (t Tree) Empty(dir, to string) (failed error) {
	inside, err := lease.Leases{Proc: t.Proc}.InGroup(dir)
	for _, p := range inside {
		if p.PID == 0 {
			continue
		}
		if err := write(to, p.PID); err != nil && !errors.Is(err, unix.ESRCH) {
			failed = errors.Join(failed, err)
		}
	}
	return errors.Join(err, failed)
}
