package lease

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// caller is the process that leases.
func (l Leases) caller(pid int) (process, error) {
	self, alive, err := l.process(pid)
	if err == nil && !alive {
		err = errors.New("it is gone")
	}
	if err != nil {
		return self, fmt.Errorf("cannot lease GPUs to process %d: %w", pid, err)
	}
	return self, nil
}

func (l Leases) checkCall(c Call) error {
	if err := l.checkNames(); err != nil {
		return err
	}
	if c.Container == "" || c.Cgroup == "" || c.PID < 1 {
		return errors.New("cannot lease GPUs: the call names no container, cgroup or process")
	}
	if c.PidFile != "" && !filepath.IsAbs(c.PidFile) {
		return fmt.Errorf("cannot lease GPUs to container %s: its pid file %s is not an absolute path", c.Container, c.PidFile)
	}
	return nil
}

// withoutPidFile is for a container whose end nobody could see.
func withoutPidFile(c Call) error {
	if c.Own {
		return fmt.Errorf("cannot lease GPUs to container %s: runc is called without --pid-file, so nobody could see when it has ended; run it by an engine that gives one, as Docker, Podman and containerd do", c.Container)
	}
	return fmt.Errorf("cannot lease GPUs to container %s: runc is called without --pid-file, so nobody could see when its task has ended", c.Container)
}

// wanted returns the GPUs that are asked for, lowest first.
func (l Leases) wanted(w Want) (of []int, err error) {
	if w.Count < 1 {
		return nil, fmt.Errorf("cannot lease %d GPUs", w.Count)
	}
	if w.Of == nil {
		return l.all(), nil
	}
	of = slices.Clone(w.Of)
	slices.Sort(of)
	of = slices.Compact(of)
	return of, l.checkIndexes(of)
}

func (l Leases) all() []int {
	all := make([]int, len(l.GPUs))
	for i := range all {
		all[i] = i
	}
	return all
}

func (l Leases) checkIndexes(gpus []int) error {
	for _, g := range gpus {
		if g < 0 || g >= len(l.GPUs) {
			return fmt.Errorf("cannot lease GPU %d: this unit has %d", g, len(l.GPUs))
		}
	}
	return nil
}
