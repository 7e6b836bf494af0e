package concourse

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

// Drain stops the worker for good: the web takes it from its list and gives
// it no new step (SIGUSR2), its running tasks get Limit to finish, then the
// unit is stopped and disabled and what is left of its containers is killed.
// A restart for a change of configuration must not drain: SIGTERM and a prompt
// start keep the tasks (KillMode=process).
type Drain struct {
	State    resource.UnitState  // what ShowUnits said
	Limit    time.Duration       // 0: don't wait, don't retire
	Why      string              // why it is wanted down
	Disrupts string              // see plan.Step
	Kill     func(pid int) error // SIGKILL; nil: on the running machine only
}

// Retire lets the tasks of a worker end for Limit, so that its programs can be
// replaced, and leaves the unit to whoever starts it again.
type Retire struct {
	State resource.UnitState
	Limit time.Duration // 0: don't wait, don't retire
	Why   string
}

// Diff implements plan.Resource. Tasks that do not end in time are no reason to
// stop: the worker that is started next takes them over.
func (r Retire) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if !r.State.Running() || r.Limit <= 0 {
		return nil, nil
	}
	return plan.Plan{{Op: "drain " + Unit, Why: r.Why, Tolerate: true, Do: func(ctx context.Context) error { return retire(ctx, h, r.Limit) }}}, nil
}

// poll is how often a retiring worker is looked at. It needs 30 to 60 s when
// it has nothing to do.
const poll = 2 * time.Second

// Diff implements plan.Resource.
func (d Drain) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	var p plan.Plan
	up := d.State.Running() || d.State.Active == "activating"
	if d.State.Running() && d.Limit > 0 {
		p = append(p, plan.Step{Op: "drain " + Unit, Why: d.Why, Disrupts: d.Disrupts, Tolerate: true, Do: func(ctx context.Context) error {
			return retire(ctx, h, d.Limit)
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
	left, err := leftBehind(h.Root)
	if err != nil {
		return nil, err
	}
	if up || len(left) > 0 {
		p = append(p, plan.Step{Op: "end the containers of " + Unit, Why: "they outlive the worker", Disrupts: d.Disrupts, Tolerate: true, Do: func(ctx context.Context) error {
			return d.endLeft(ctx, h)
		}})
	}
	return p, nil
}

// again is how often the signal is repeated: a web that restarts forgets that the
// worker retires, and lets it register as one that runs.
const again = 15 * poll

// away bounds how long a draining worker waits for a web that it has no connection to, such
// as a web that is removed together with it. After this time the web gives up the builds of
// a silent worker, so waiting longer saves nothing.
const away = 5 * time.Minute

// retire sends the signal and waits. Time is counted in polls, so that it ends
// whatever the clock does.
func retire(ctx context.Context, h host.Host, limit time.Duration) error {
	signal := resource.Systemctl("kill", "--kill-whom=main", "--signal=SIGUSR2", Unit)
	if _, err := h.Run(ctx, signal); err != nil {
		return err
	}
	for waited, alone := time.Duration(0), time.Duration(0); ; waited += poll {
		states, err := resource.ShowUnits(ctx, h, Unit)
		if err != nil {
			return err
		}
		// Between two attempts to start it, it is as ended as it gets.
		if s := states[Unit]; s.Sub == "auto-restart" || s.Active == "inactive" || s.Active == "failed" {
			return nil
		}
		if waited >= limit {
			return fmt.Errorf("its tasks did not finish within %s", limit)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if waited > 0 && waited%again == 0 {
			h.Run(ctx, signal) // where it fails the worker has just ended, which the next look shows
			if alone += again; connected(ctx, h) {
				alone = 0
			}
			if alone >= away {
				return fmt.Errorf("it had no connection to a web for %s, so its tasks are lost", away)
			}
		}
		h.Sleep(poll)
	}
}

// connected reports whether the worker has a connection to its web. It does if that can't
// be found out.
func connected(ctx context.Context, h host.Host) bool {
	env, err := h.ReadFile(EnvFile)
	if err != nil {
		return true
	}
	_, port, err := net.SplitHostPort(EnvValues(env)["CONCOURSE_TSA_HOST"])
	if err != nil {
		return true
	}
	out, err := h.Run(ctx, host.Command{Argv: []string{"ss", "--no-header", "--tcp", "--numeric", "state", "established", "dport", "=", ":" + port},
		ReadOnly: true, Deadline: 30 * time.Second})
	return err != nil || len(bytes.TrimSpace(out)) > 0
}
