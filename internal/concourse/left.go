package concourse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"concourse-ci-machine/internal/base/host"
)

// runcState is where runc keeps one folder for each container of Concourse's
// namespace of containerd; a task can't reach it. A task may leave the control
// group that it was put into, and a privileged one has a group of its own anyway,
// but none leaves the pid namespace that its container was made with: the kernel
// ends all who are in there with the first process (pid_namespaces(7)).
const runcState = "/run/containerd/runc/concourse"

// unitGroups are where systemd has the shims, which a stop leaves to the
// containers (KillMode=process): cgroup v2, and v1 beside or without it.
var unitGroups = []string{"/sys/fs/cgroup/system.slice/" + Unit, "/sys/fs/cgroup/systemd/system.slice/" + Unit}

// process is one that is left of a worker, and what it is.
type process struct {
	pid int
	is  string
}

// leftBehind are the first processes of containers, and the shims.
func leftBehind(root host.Root) (left []process, err error) {
	files, err := root.Glob(runcState + "/*/state.json")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		var s struct {
			PID   int    `json:"init_process_pid"`
			Start uint64 `json:"init_process_start"`
		}
		data, err := root.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read which processes a container has: %w [%s]", err, file)
		}
		// Another process may have the number by now.
		if start, alive := startOf(root, s.PID); alive && start == s.Start {
			left = append(left, process{s.PID, "the first process of container " + path.Base(path.Dir(file))})
		}
	}
	for _, group := range unitGroups {
		text, err := root.ReadText(group + "/cgroup.procs")
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			return nil, fmt.Errorf("cannot read which processes %s has: %w", Unit, err)
		}
		for word := range strings.FieldsSeq(text) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("cannot read %s/cgroup.procs: %w", group, err)
			}
			if _, alive := startOf(root, pid); alive {
				left = append(left, process{pid, "a shim of " + Unit})
			}
		}
	}
	return left, nil
}

// startOf tells when a process was started, in ticks since the boot, and whether
// it runs: fields 22 and 3 of /proc/PID/stat, the name before them in parentheses.
func startOf(root host.Root, pid int) (start uint64, alive bool) {
	text, err := root.ReadText(fmt.Sprintf("/proc/%d/stat", pid))
	field := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if err != nil || pid <= 1 || len(field) < 20 || field[0] == "Z" || field[0] == "X" {
		return 0, false
	}
	start, err = strconv.ParseUint(field[19], 10, 64)
	return start, err == nil
}

// endLeft kills what is left and sees it go, which takes long where the kernel
// waits for a GPU.
func (d Drain) endLeft(ctx context.Context, h host.Host) error {
	kill := d.Kill
	if kill == nil {
		kill = func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
		if !h.Real() { // the numbers are those of another machine
			kill = func(int) error { return nil }
		}
	}
	const look, limit = 100 * time.Millisecond, 20 * time.Second
	for waited := time.Duration(0); ; waited += look {
		left, err := leftBehind(h.Root)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, p := range left {
			if err := kill(p.pid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("cannot end %s, %d: %w", p.is, p.pid, err)
			}
		}
		if waited >= limit {
			return fmt.Errorf("%s, %d, does not end within %s of SIGKILL: the kernel waits for something, mostly a device; "+
				"look with: sudo cat /proc/%d/stack", left[0].is, left[0].pid, limit, left[0].pid)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		h.Sleep(look)
	}
}
