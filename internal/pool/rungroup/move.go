package rungroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Move moves a process with all its threads into a group. The processes that it started
// before stay outside, and those that it starts from now on are inside.
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
		return errors.Join(fmt.Errorf("cannot move process %d: it has ended", p.PID), evict(dir))
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

// evict moves all processes of a group to the group above.
func evict(dir string) (failed error) {
	pids, err := Processes(dir)
	for _, pid := range pids {
		if err := write(filepath.Dir(dir), pid); err != nil && !errors.Is(err, unix.ESRCH) {
			failed = errors.Join(failed, err)
		}
	}
	return errors.Join(err, failed)
}

// Processes returns the processes in a group and in those inside it. A missing group has
// none. A process of another pid namespace is 0.
func Processes(dir string) (pids []int, err error) {
	err = walk(dir, func(d string) error {
		text, err := os.ReadFile(filepath.Join(d, "cgroup.procs"))
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
			return nil // removed, or its processes are listed in a group above it
		case err != nil:
			return err
		}
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return fmt.Errorf("cannot read processes of %s: %w", d, err)
			}
			pids = append(pids, pid)
		}
		return nil
	})
	return pids, err
}
