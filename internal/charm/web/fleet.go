package web

import (
	"cmp"
	"slices"
	"time"

	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/concourse"
)

// Fleet is all workers: those of related units, and those that Concourse knows besides.
type Fleet struct {
	Time    time.Time     `json:"time"`
	Unknown string        `json:"state_unknown,omitempty"` // why Concourse tells of no worker
	Workers []FleetWorker `json:"workers"`
}

// FleetWorker is one of them. null is not known.
type FleetWorker struct {
	Unit   string `json:"unit"`   // "" where no related unit has this worker
	Worker string `json:"worker"` // its name at the web, "" where the unit tells none
	State  string `json:"state"`  // as Concourse has it, of now; "" where it does not know the worker
	Tasks  *int   `json:"active_tasks"`

	Runtime string               `json:"runtime"`       // rocm, cuda; "" without GPUs
	GPUs    int                  `json:"gpus"`          // that tasks get
	Archs   []relation.ArchCount `json:"architectures"` // of AMD's
	Sharing string               `json:"sharing"`       // shared, exclusive; "" without GPUs

	InService *int                    `json:"in_service"`
	Free      *int                    `json:"free"` // that a task can lease; null also where tasks share them
	Each      []relation.PublishedGPU `json:"each"` // null where the unit does not tell, as by an older charm
	Told      *time.Time              `json:"told"` // since when it tells that of each
	Problem   string                  `json:"problem,omitempty"`
}

// FleetOf puts together what workers' units told, and what Concourse knows of them.
func FleetOf(workers []model.Worker, known []concourse.WorkerInfo, now time.Time) Fleet {
	f := Fleet{Time: now.UTC().Truncate(time.Second), Workers: []FleetWorker{}}
	known = slices.SortedStableFunc(slices.Values(known), func(a, b concourse.WorkerInfo) int { return cmp.Compare(a.Name, b.Name) })
	seen := map[string]bool{}
	for _, w := range workers {
		one := told(w)
		if i := slices.IndexFunc(known, func(k concourse.WorkerInfo) bool { return k.Name == w.Name }); i >= 0 && w.Name != "" {
			one.State, one.Tasks = known[i].State, &known[i].ActiveTasks
			seen[w.Name] = true
		}
		f.Workers = append(f.Workers, one)
	}
	for i, k := range known {
		if !seen[k.Name] {
			f.Workers = append(f.Workers, FleetWorker{Worker: k.Name, State: k.State, Tasks: &known[i].ActiveTasks})
		}
	}
	return f
}

// told is a worker as its unit tells of it.
func told(w model.Worker) FleetWorker {
	one := FleetWorker{Unit: w.Unit, Worker: w.Name, Runtime: w.GPUs.Runtime, GPUs: w.GPUs.Count, Archs: w.GPUs.Archs, Problem: cmp.Or(w.Problem, w.GPUsOdd)}
	if one.GPUs == 0 {
		return one
	}
	if one.Sharing = "shared"; w.GPUs.Exclusive {
		one.Sharing = "exclusive"
	}
	if w.GPUs.Each == nil {
		return one
	}
	one.Each, one.Told = w.GPUs.Each, &w.GPUs.Since
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
