package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/garden"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/notice"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// addTasks adds the containers and their GPUs to a look, from leases. If GPUs are shared,
// it uses the processes that have them open.
func (u *Unit) addTasks(l *quarantine.Look) {
	add := func(t quarantine.Task, name string) {
		i := slices.IndexFunc(l.Tasks, func(o quarantine.Task) bool { return o.Container == t.Container })
		if i < 0 {
			i, l.Tasks = len(l.Tasks), append(l.Tasks, t)
		}
		if !slices.Contains(l.Tasks[i].GPUs, name) {
			l.Tasks[i].GPUs = append(l.Tasks[i].GPUs, name)
		}
	}
	leases, err := u.readLeases()
	if err == nil && leases != nil {
		l.Holders = map[string]string{}
		states, _, readErr := leases.Read()
		err = readErr
		for _, s := range states {
			l.Holders[s.GPU] = s.Container
			if s.Held && s.Kind != lease.Task {
				l.EngineLeases = append(l.EngineLeases, s.GPU)
			}
			if s.Held && (s.Kind == lease.Task || s.Kind == lease.Run) {
				add(quarantine.Task{
					Container: s.Container, StepHash: s.StepHash, Program: s.Program, Since: s.Since.UTC(),
				}, s.GPU)
			}
		}
	}
	l.TasksUnknown = err != nil
	for _, s := range l.GPUs {
		for _, u := range s.Users {
			add(quarantine.Task{Container: u}, s.Address())
		}
	}
}

const (
	// containersTimeout bounds the wait for the worker, because its containerd may be busy.
	containersTimeout = api.Deadline
	// maxExits bounds the requests of one look.
	maxExits = 64
)

// fetchExits fetches from the unit's worker how ended tasks ended. Missing answers stay
// unknown.
func (u *Unit) fetchExits(ctx context.Context, before quarantine.Record, l quarantine.Look) map[string]quarantine.Exit {
	all := map[string]quarantine.Exit{}
	for _, run := range before.Runs {
		here := slices.ContainsFunc(l.Tasks, func(t quarantine.Task) bool { return t.Container == run.Container })
		if here || run.Ended != nil || l.TasksUnknown || len(all) == maxExits {
			continue
		}
		status, err := u.fetchExit(ctx, run.Container)
		if err != nil {
			continue
		}
		exit := quarantine.Exit{Status: &status}
		if run.Program != "" && quarantine.IsCrash(status) {
			exit.Team = u.fetchTeam(ctx, run.Container)
		}
		all[run.Container] = exit
	}
	return all
}

// fetchExit returns the exit status of a container's process.
func (u *Unit) fetchExit(ctx context.Context, container string) (status int, err error) {
	if u.WorkerURL == "" && !u.Host.Real() {
		return 0, errors.New("the worker is this machine's, not CHARM_ROOT's")
	}
	return garden.ExitStatus(ctx, u.WorkerURL, container)
}

// notifyTasks writes into the output of tasks which GPU failed during the task. It holds no
// lock: problems with the output of a task must not delay the decisions on GPUs.
func (u *Unit) notifyTasks(w io.Writer, seen []quarantine.Reading) error {
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	if err != nil {
		return fmt.Errorf("cannot write notices to tasks: %w", err)
	}
	l := notice.Look{At: u.Host.Now().UTC(), Record: r, Taken: map[string]string{}}
	for _, g := range r.GPUs {
		if text := g.Memory.Text(); text != "" {
			l.Taken[g.Name] = fmt.Sprintf("GPU %d: %s", g.Index, text)
		}
	}
	if l.Users, l.Leased, err = u.users(seen, r); err != nil {
		return fmt.Errorf("cannot write notices to tasks: %w", err)
	}
	tasks := notice.Tasks{Leases: lease.Leases{Proc: u.Host.Path("/proc"), Cgroup: u.Host.Path("/sys/fs/cgroup")}}
	if err := tasks.Notify(u.Host, w, l); err != nil {
		return fmt.Errorf("cannot write notices to tasks: %w", err)
	}
	return nil
}

// users returns the containers that have each GPU: the holder of the lease if GPUs are
// leased, otherwise the containers that have the GPU open. leased describes the leased GPUs
// of each task.
func (u *Unit) users(
	seen []quarantine.Reading, r quarantine.Record,
) (users map[string][]string, leased map[string][]string, err error) {
	users, leased = map[string][]string{}, map[string][]string{}
	for _, s := range seen {
		if s.Open != nil {
			users[s.Address()] = s.Open
		}
	}
	l, err := u.readLeases()
	if err != nil || l == nil {
		return users, leased, err
	}
	states, _, err := l.Read()
	for _, s := range states {
		if s.Held && s.Kind == lease.Task {
			leased[s.Container] = append(leased[s.Container], describeGPU(s.GPU, seen, r))
		}
		if users[s.GPU] = nil; s.Held && s.Kind == lease.Task { // only the output of tasks may be written
			users[s.GPU] = []string{s.Container}
		}
	}
	return users, leased, err
}

// describeGPU returns a GPU as a build shows it: "GPU 3: AMD Instinct MI300X gfx942,
// 0000:65:00.0, healthy", and who else uses its memory.
func describeGPU(address string, seen []quarantine.Reading, r quarantine.Record) string {
	at := slices.IndexFunc(seen, func(s quarantine.Reading) bool { return s.Address() == address })
	if at < 0 {
		return "GPU " + address
	}
	s := seen[at]
	words := []string{strings.TrimSpace(s.Model + " " + s.GFX), address, string(s.State)}
	if g := r.Find(address); g != nil {
		words = append(words, g.Memory.Text())
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	return fmt.Sprintf("GPU %d: %s", s.Index, strings.Join(words, ", "))
}
