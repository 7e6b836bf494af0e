package web

import (
	"cmp"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
)

// Fleet holds all workers: workers of related units, and others that Concourse lists.
type Fleet struct {
	Time    time.Time     `json:"time"`
	Unknown string        `json:"state_unknown,omitempty"` // reason why Concourse's list is missing
	Page    string        `json:"page,omitempty"`          // URL of the fleet page on this unit, "" if it is off
	Workers []FleetWorker `json:"workers"`
}

// FleetWorker describes one worker. null is unknown.
type FleetWorker struct {
	Unit string `json:"unit"` // "" if no related unit has this worker
	// Platform is windows for a worker on Windows, which describes itself by its tags.
	Platform string `json:"platform,omitempty"`
	Worker   string `json:"worker"` // name at the web, "" if the unit publishes none
	State    string `json:"state"`  // current state in Concourse, "" if Concourse does not list the worker
	Tasks    *int   `json:"active_tasks"`

	Runtime string               `json:"runtime"`       // rocm, cuda; "" without GPUs
	GPUs    int                  `json:"gpus"`          // available to tasks
	Archs   []relation.ArchCount `json:"architectures"` // of AMD GPUs
	Sharing string               `json:"sharing"`       // shared, exclusive; "" without GPUs

	InService *int            `json:"in_service"`
	Free      *int            `json:"free"`  // available for a lease; null also if tasks share GPUs
	Each      []fleetfile.GPU `json:"each"`  // null if the unit publishes only their number
	Since     *time.Time      `json:"since"` // first time with this value of Each
	Problem   string          `json:"problem,omitempty"`
}

// FleetOf joins the workers of related units with the list of Concourse.
func FleetOf(workers []model.Worker, known []concourse.WorkerInfo, now time.Time) Fleet {
	f := Fleet{Time: now.UTC().Truncate(time.Second), Workers: []FleetWorker{}}
	known = slices.SortedStableFunc(slices.Values(known), func(a, b concourse.WorkerInfo) int {
		return cmp.Compare(a.Name, b.Name)
	})
	seen := map[string]bool{}
	for _, w := range workers {
		one := fleetWorker(w)
		if i := slices.IndexFunc(known,
			func(k concourse.WorkerInfo) bool { return k.Name == w.Name }); i >= 0 && w.Name != "" {
			one.State, one.Tasks = known[i].State, &known[i].ActiveTasks
			seen[w.Name] = true
		}
		f.Workers = append(f.Workers, one)
	}
	for i, k := range known {
		if !seen[k.Name] {
			one := FleetWorker{Worker: k.Name}
			for _, w := range onWindows(nil, known[i:i+1]) {
				if one = fleetWorker(w); k.State == running && one.GPUs > 0 {
					one.InService = &one.GPUs
				}
				one.Platform = k.Platform
			}
			one.State, one.Tasks = k.State, &known[i].ActiveTasks
			f.Workers = append(f.Workers, one)
		}
	}
	return f
}

// fleetWorker returns a worker as its unit publishes it.
func fleetWorker(w model.Worker) FleetWorker {
	one := FleetWorker{Unit: w.Unit, Worker: w.Name, Runtime: w.GPUs.Runtime, GPUs: w.GPUs.Count,
		Archs: w.GPUs.Archs, Problem: cmp.Or(w.Problem, w.DataProblem)}
	if one.GPUs == 0 {
		return one
	}
	if one.Sharing = "shared"; w.GPUs.Exclusive {
		one.Sharing = "exclusive"
	}
	if w.GPUs.Each == nil {
		return one
	}
	one.Each, one.Since = w.GPUs.Each, &w.GPUs.Since
	in, free, leased := 0, 0, false
	for _, g := range one.Each {
		if !g.Quarantined() {
			in++
		}
		if leased = leased || g.Leased != nil; g.Free() {
			free++
		}
	}
	if one.InService = &in; leased {
		one.Free = &free
	}
	return one
}
