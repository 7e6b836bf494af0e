// Package usagereport reports the GPU usage of builds, by team and pipeline. It queries a
// Prometheus with the series of src/prometheus_alert_rules/concourse-usage.yaml, and stores
// nothing.
package usagereport

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Usage holds the usage of one team or pipeline in the requested time.
type Usage struct {
	Builds    int      `json:"builds"`
	GPUHours  float64  `json:"gpu_hours"`         // one GPU held for one hour is one
	BusyHours *float64 `json:"busy_gpu_hours"`    // busy time of the held GPUs; nil if no GPU reports it
	Memory    *float64 `json:"peak_memory_bytes"` // of one container on one GPU; nil if unknown
}

// Pipeline holds the usage of a pipeline. The name is "" for builds without a pipeline,
// such as builds of fly execute.
type Pipeline struct {
	Name string `json:"pipeline"`
	Usage
}

// Team holds the sums of its pipelines.
type Team struct {
	Name string `json:"team"`
	Usage
	WaitHours float64    `json:"wait_hours"` // waiting time of started tasks for GPU workers
	Pipelines []Pipeline `json:"pipelines"`  // most GPU-hours first
}

// Report holds the result of Fetch.
type Report struct {
	Since string    `json:"since"`
	Until time.Time `json:"until"`
	Teams []Team    `json:"teams"` // most GPU-hours first
}

// Web selects the builds by Juju's model and application. If Prometheus has no labels of
// Juju, it watches one Concourse.
type Web struct{ ModelUUID, App string }

var window = regexp.MustCompile(`^[1-9][0-9]{0,3}[hdw]$`)

// CheckWindow checks the length of the requested time.
func CheckWindow(since string) error {
	if !window.MatchString(since) {
		return fmt.Errorf("%q is no time like 36h, 7d or 4w", since)
	}
	return nil
}

// Fetch queries the usage in the time before now.
func Fetch(ctx context.Context, prometheus string, w Web, since string, now time.Time) (Report, error) {
	r := Report{Since: since, Until: now.UTC().Truncate(time.Second), Teams: []Team{}}
	q := queries(w, since)
	answers := map[string][]sample{}
	for name, expr := range q {
		got, err := query(ctx, prometheus, expr, now)
		if err != nil {
			return r, err
		}
		answers[name] = got
	}
	r.Teams = joinTeams(answers)
	return r, nil
}

// queries returns the queries of a report by name.
func queries(w Web, since string) map[string]string {
	web := fmt.Sprintf(`{web=~"%s/%s|/.*"}`, w.ModelUUID, w.App)
	own := fmt.Sprintf(`juju_model_uuid=~"%s|",juju_application=~"%s|"`, w.ModelUUID, w.App)
	seconds := "concourse:container_gpu_held_seconds" + web
	// GPU seconds before the requested time are subtracted.
	held := fmt.Sprintf("(max_over_time(%s[%s]) - (%[1]s offset %[2]s) or max_over_time(%[1]s[%[2]s]))", seconds, since)
	busy := fmt.Sprintf("%s * avg_over_time(concourse:container_gpu_busy_ratio%s[%s])", held, web, since)
	return map[string]string{
		"held":   "sum by (team, pipeline) (" + held + ") / 3600",
		"busy":   "sum by (team, pipeline) (" + busy + ") / 3600",
		"builds": "count by (team, pipeline) (max by (team, pipeline, job_name, build) (" + held + "))",
		"memory": fmt.Sprintf(
			"max by (team, pipeline) (max_over_time(concourse:container_gpu_memory_bytes%s[%s]))", web,
			since,
		),
		"wait": fmt.Sprintf(
			`sum by (teamName) (increase(concourse_steps_wait_duration_sum{%s,type="task",workerTags=~".*(gpu|rocm|cuda|gfx=).*"}[%s])) / 3600`,
			own, since),
	}
}

// joinTeams joins the answers by team.
func joinTeams(answers map[string][]sample) []Team {
	pipelines := map[[2]string]*Usage{}
	for _, s := range answers["held"] {
		pipelines[s.key()] = &Usage{GPUHours: s.number()}
	}
	for name, take := range map[string]func(*Usage, float64){
		"builds": func(u *Usage, n float64) { u.Builds = int(n) },
		"busy":   func(u *Usage, n float64) { u.BusyHours = &n },
		"memory": func(u *Usage, n float64) { u.Memory = &n },
	} {
		for _, s := range answers[name] {
			if u := pipelines[s.key()]; u != nil {
				take(u, s.number())
			}
		}
	}
	teams := map[string]*Team{}
	team := func(name string) *Team {
		if teams[name] == nil {
			teams[name] = &Team{Name: name, Pipelines: []Pipeline{}}
		}
		return teams[name]
	}
	for key, u := range pipelines {
		t := team(key[0])
		t.Pipelines = append(t.Pipelines, Pipeline{key[1], *u})
		t.add(*u)
	}
	for _, s := range answers["wait"] {
		if n := s.number(); n > 0 {
			team(s.Metric["teamName"]).WaitHours += n
		}
	}
	out := []Team{}
	for _, t := range teams {
		slices.SortFunc(t.Pipelines, func(a, b Pipeline) int {
			return cmp.Or(cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(a.Name, b.Name))
		})
		out = append(out, *t)
	}
	slices.SortFunc(
		out,
		func(a, b Team) int { return cmp.Or(cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(a.Name, b.Name)) },
	)
	return out
}

func (u *Usage) add(more Usage) {
	u.Builds += more.Builds
	u.GPUHours += more.GPUHours
	if more.BusyHours != nil {
		sum := *more.BusyHours
		if u.BusyHours != nil {
			sum += *u.BusyHours
		}
		u.BusyHours = &sum
	}
	if more.Memory != nil && (u.Memory == nil || *more.Memory > *u.Memory) {
		u.Memory = more.Memory
	}
}
