package concourse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/procfile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// Drain stops the worker permanently. The web removes it from its list and gives it no new
// step (SIGUSR2). Its running tasks get Limit to finish. Then the unit is stopped and
// disabled, and remaining processes of its containers are killed.
//
// A restart for a change of configuration must not drain: SIGTERM and a prompt start keep
// the tasks (KillMode=process).
type Drain struct {
	State    resource.UnitState  // as ShowUnits returned it
	Limit    time.Duration       // 0: don't wait, don't retire
	Why      string              // the reason for the stop
	Disrupts string              // see plan.Step
	Kill     func(pid int) error // SIGKILL; nil: on the running machine only
}

// Retire gives the tasks of a worker Limit to finish, so that its programs can be replaced.
// It does not stop the unit.
type Retire struct {
	State resource.UnitState
	Limit time.Duration // 0: don't wait, don't retire
	Why   string
}

// Diff implements plan.Resource. Tasks that do not finish in time are not an error, because
// the next worker process takes them over.
func (r Retire) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if !r.State.Running() || r.Limit <= 0 {
		return nil, nil
	}
	return plan.Plan{{Op: "drain " + Unit, Why: r.Why, Tolerate: true,
		Do: func(ctx context.Context) error { return leave(ctx, h, remove, r.Limit) }}}, nil
}

// poll is the interval between two checks of a retiring worker. An idle worker needs 30 to
// 60 s to retire.
const poll = 2 * time.Second

// Diff implements plan.Resource.
func (d Drain) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	var p plan.Plan
	up := d.State.Running() || d.State.Active == "activating"
	if d.State.Running() && d.Limit > 0 {
		p = append(p, plan.Step{Op: "drain " + Unit, Why: d.Why, Disrupts: d.Disrupts, Tolerate: true,
			Do: func(ctx context.Context) error {
				return leave(ctx, h, remove, d.Limit)
			}})
	}
	stop, err := resource.Service{Unit: Unit, State: d.State, Up: false, Why: d.Why}.Diff(ctx, h)
	if err != nil {
		return nil, err
	}
	for i := range stop {
		stop[i].Disrupts = d.Disrupts
	}
	p = append(p, stop...)
	remaining, err := remainingProcesses(h.Root)
	if err != nil {
		return nil, err
	}
	if up || len(remaining) > 0 {
		p = append(p, plan.Step{Op: "end the containers of " + Unit, Why: "they outlive the worker",
			Disrupts: d.Disrupts, Tolerate: true, Do: func(ctx context.Context) error {
				return d.killRemaining(ctx, h)
			}})
	}
	return p, nil
}

// signalInterval is the time between two signals. A web that restarts loses the retiring
// state, and would register the worker as running again.
const signalInterval = 15 * poll

// away bounds how long a draining worker waits for a web that it has no connection to, such
// as a web that is removed together with it. After this time the web gives up the builds of
// a silent worker, so waiting longer saves nothing.
const away = 5 * time.Minute

// Results of leave for a unit that still runs.
var (
	errLimit = errors.New("its tasks did not finish")
	errAway  = fmt.Errorf("it had no connection to a web for %s, so its tasks are lost", away)
)

// signalError reports a worker that did not get its signal.
type signalError struct{ error }

func (e *signalError) Unwrap() error { return e.error }

// leave sends the signal and waits for the unit to end. It counts time in polls, so that it
// ends whatever the clock does. Only a *signalError means that the worker does not leave.
func leave(ctx context.Context, h host.Host, with string, limit time.Duration) error {
	signal := signalCommand(with)
	if _, err := h.Run(ctx, signal); err != nil {
		return &signalError{err}
	}
	for waited, alone := time.Duration(0), time.Duration(0); ; waited += poll {
		states, err := resource.ShowUnits(ctx, h, Unit)
		if err != nil {
			return err
		}
		// Between two attempts to start it, the unit does not run.
		if s := states[Unit]; s.Sub == "auto-restart" || s.Active == "inactive" || s.Active == "failed" {
			return nil
		}
		if waited >= limit {
			return fmt.Errorf("%w within %s", errLimit, limit)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if waited > 0 && waited%signalInterval == 0 {
			h.Run(ctx, signal) // if it fails the worker has just ended, as the next check shows
			if alone += signalInterval; connected(ctx, h) {
				alone = 0
			}
			if alone >= away {
				return errAway
			}
		}
		h.Sleep(poll)
	}
}

// connected reports whether the worker has a connection to its web. It returns true if this
// can't be determined.
func connected(ctx context.Context, h host.Host) bool {
	env, err := h.ReadFile(EnvFile)
	if err != nil {
		return true
	}
	asked := map[string]bool{}
	for address := range strings.SplitSeq(EnvValues(env)["CONCOURSE_TSA_HOST"], ",") {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return true
		}
		if asked[port] {
			continue
		}
		asked[port] = true
		out, err := h.Run(ctx, host.Command{Argv: []string{"ss", "--no-header", "--tcp", "--numeric", "state",
			"established", "dport", "=", ":" + port},
			ReadOnly: true, Deadline: 30 * time.Second})
		if err != nil || len(bytes.TrimSpace(out)) > 0 {
			return true
		}
	}
	return false
}

// runcState has one folder for each container in Concourse's containerd namespace. Tasks
// can't reach it. A task may leave its control group, and a privileged task has a separate
// one anyway. No task leaves the pid namespace of its container: when the first process
// ends, the kernel ends all others (pid_namespaces(7)).
const runcState = "/run/containerd/runc/concourse"

// unitGroups are the control groups of the shims, for cgroup v2 and v1. Stopping the unit
// leaves the shims running (KillMode=process).
var unitGroups = []string{"/sys/fs/cgroup/system.slice/" + Unit, "/sys/fs/cgroup/systemd/system.slice/" + Unit}

// process describes a remaining process of a worker.
type process struct {
	pid int
	is  string
}

// remainingProcesses returns the first processes of containers, and the shims.
func remainingProcesses(root host.Root) (remaining []process, err error) {
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
		// Another process may have the same pid by now.
		if start, alive := startOf(root, s.PID); alive && start == s.Start {
			remaining = append(remaining, process{s.PID, "the first process of container " + path.Base(path.Dir(file))})
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
				remaining = append(remaining, process{pid, "a shim of " + Unit})
			}
		}
	}
	return remaining, nil
}

// startOf returns the start time of a process, in ticks since the boot, and whether it
// runs.
func startOf(root host.Root, pid int) (start uint64, alive bool) {
	text, err := root.ReadText(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || pid <= 1 {
		return 0, false
	}
	stat, err := procfile.ParseStat(text)
	return stat.Start, err == nil && stat.Alive
}

// killRemaining kills the remaining processes and waits for their end. This takes long if
// the kernel waits for a GPU.
func (d Drain) killRemaining(ctx context.Context, h host.Host) error {
	kill := d.Kill
	if kill == nil {
		kill = func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
		if !h.Real() { // the pids belong to another machine
			kill = func(int) error { return nil }
		}
	}
	const look, limit = 100 * time.Millisecond, 20 * time.Second
	for waited := time.Duration(0); ; waited += look {
		remaining, err := remainingProcesses(h.Root)
		if err != nil || len(remaining) == 0 {
			return err
		}
		for _, p := range remaining {
			if err := kill(p.pid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("cannot end %s, %d: %w", p.is, p.pid, err)
			}
		}
		if waited >= limit {
			return fmt.Errorf("%s, %d, did not end within %s of SIGKILL: the kernel probably waits for a device; "+
				"see: sudo cat /proc/%d/stack", remaining[0].is, remaining[0].pid, limit, remaining[0].pid)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		h.Sleep(look)
	}
}
