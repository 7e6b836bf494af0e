package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/quarantine"
)

// addTasks says which containers have which GPUs: by leases, and where GPUs are shared by
// whose processes have them open.
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
	leases, _, on, err := u.leased()
	if err == nil && on {
		l.Holders = map[string]string{}
		states, _, wrong := leases.Read()
		err = wrong
		for _, s := range states {
			l.Holders[s.GPU] = s.Container
			if s.Held && s.Kind == lease.Task {
				add(quarantine.Task{Container: s.Container, StepHash: s.StepHash, Since: s.Since.UTC()}, s.GPU)
			}
		}
	}
	l.TasksUnknown = err != nil
	for _, s := range l.GPUs {
		for _, u := range s.Users {
			add(quarantine.Task{Container: u}, s.Name)
		}
	}
}

const (
	// containersTime is how long the worker is waited for, as its containerd may be busy:
	// from the beginning of a look on, so that the exporter and the worker together hold up
	// a look no longer than the exporter alone may.
	containersTime = monitor.Deadline
	// mostExits bounds what is asked at one look.
	mostExits = 64
)

// exits asks this unit's worker how the tasks ended that are no more. What it does not
// say stays unknown.
func (u *Unit) exits(ctx context.Context, before quarantine.Record, l quarantine.Look) map[string]quarantine.Exit {
	all := map[string]quarantine.Exit{}
	for _, run := range before.Runs {
		here := slices.ContainsFunc(l.Tasks, func(t quarantine.Task) bool { return t.Container == run.Container })
		if here || run.Ended != nil || l.TasksUnknown || len(all) == mostExits {
			continue
		}
		status, err := u.exitOf(ctx, run.Container)
		if err != nil {
			continue
		}
		all[run.Container] = quarantine.Exit{Status: &status}
	}
	return all
}

// exitOf is the status that a container's process ended with. The worker notes it when
// the process has ended, as this property of the container (Concourse, worker/runtime).
func (u *Unit) exitOf(ctx context.Context, container string) (status int, err error) {
	worker := u.WorkerURL
	if worker == "" {
		if !u.Host.Real() {
			return 0, errors.New("the worker is this machine's, not CHARM_ROOT's")
		}
		worker = fmt.Sprintf("http://127.0.0.1:%d", wellknown.ContainersPort)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, worker+"/containers/"+url.PathEscape(container)+"/properties/garden.process-exit-status", nil)
	if err != nil {
		return 0, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without a proxy
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the worker answers %d", resp.StatusCode)
	}
	var property struct{ Value string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&property); err != nil {
		return 0, err
	}
	return strconv.Atoi(property.Value)
}
