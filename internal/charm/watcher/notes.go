package watcher

import (
	"fmt"
	"io"

	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/quarantine"
	"concourse-ci-machine/internal/pool/tasknotice"
)

// tellTasks tells tasks which GPU fell sick under them, and ends them where that is wanted.
// It holds no lock: whatever becomes of a task's output, GPUs are decided on.
func (u *Unit) tellTasks(w io.Writer, seen []quarantine.Reading) error {
	r, err := quarantine.Read(u.Host.Root)
	if err != nil {
		return fmt.Errorf("cannot tell tasks of their GPUs: %w", err)
	}
	l := tasknotice.Look{At: u.Host.Now().UTC(), Action: tasknotice.Write, Record: r}
	if cfg, ok := u.option("gpu-hang-action"); ok {
		l.Action = tasknotice.Action(cfg.GPUHangAction)
	}
	if l.Users, err = u.users(seen); err != nil {
		return fmt.Errorf("cannot tell tasks of their GPUs: %w", err)
	}
	tasks := tasknotice.Tasks{Leases: lease.Leases{Proc: u.Host.Path("/proc"), Cgroup: u.Host.Path("/sys/fs/cgroup")}}
	if err := tasks.Notify(u.Host, w, l); err != nil {
		return fmt.Errorf("cannot tell tasks of their GPUs: %w", err)
	}
	return nil
}

// users are the containers that have each GPU: its lease where GPUs are leased, else those
// that have it open.
func (u *Unit) users(seen []quarantine.Reading) (map[string][]string, error) {
	users := map[string][]string{}
	for _, s := range seen {
		if s.Open != nil {
			users[s.Name] = s.Open
		}
	}
	l, _, on, err := u.leased()
	if err != nil || !on {
		return users, err
	}
	states, _, err := l.Read()
	for _, s := range states {
		if users[s.GPU] = nil; s.Held && s.Kind == lease.Task { // others' output is not ours to write to
			users[s.GPU] = []string{s.Container}
		}
	}
	return users, err
}
