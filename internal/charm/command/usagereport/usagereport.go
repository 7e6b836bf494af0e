// Package usagereport reports the GPU usage of builds, by team, pipeline and job. It queries
// a Prometheus with the series of src/prometheus_alert_rules/concourse-usage.yaml, and stores
// nothing.
package usagereport

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
)

// Usage holds the usage of one team or pipeline in the requested time.
type Usage struct {
	Builds    int      `json:"builds"`
	GPUHours  float64  `json:"gpu_hours"`         // one GPU held for one hour is one
	BusyHours *float64 `json:"busy_gpu_hours"`    // busy time of the held GPUs; nil if no GPU reports it
	Memory    *float64 `json:"peak_memory_bytes"` // of one container on one GPU; nil if unknown
	Energy    *float64 `json:"energy_kwh"`        // of the tasks that ended; nil if unknown
	// Estimate is true if a GPU was shared, or its readings were incomplete.
	Estimate bool     `json:"energy_estimate"`
	CO2      *float64 `json:"co2_kg,omitempty"` // nil without a factor or energy
}

// Pipeline holds the usage of a pipeline, or of one of its jobs. The name is "" for builds
// without a pipeline, such as builds of fly execute.
type Pipeline struct {
	Name string `json:"pipeline"`
	Job  string `json:"job,omitempty"`
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
		return fmt.Errorf("%q is not a time such as 36h, 7d or 4w", since)
	}
	return nil
}

// Grouping selects the rows of each team.
type Grouping string

// The groupings.
const (
	ByPipeline Grouping = "pipeline"
	ByJob      Grouping = "job"
)

// Request selects the builds and the rows.
type Request struct {
	Web
	Since string
	By    Grouping
	// CO2GramsPerKWh is the CO2 of the workers' electricity, 0 if unknown.
	CO2GramsPerKWh float64
}

// Fetch queries the usage in the time before now.
func Fetch(ctx context.Context, prometheus string, want Request, now time.Time) (Report, error) {
	r := Report{Since: want.Since, Until: now.UTC().Truncate(time.Second), Teams: []Team{}}
	q := queries(want)
	answers := map[string][]sample{}
	for name, expr := range q {
		got, err := query(ctx, prometheus, expr, now)
		if err != nil {
			return r, err
		}
		answers[name] = got
	}
	r.Teams = joinTeams(answers)
	for i := range r.Teams {
		t := &r.Teams[i]
		t.setCO2(want.CO2GramsPerKWh)
		for j := range t.Pipelines {
			t.Pipelines[j].setCO2(want.CO2GramsPerKWh)
		}
	}
	return r, nil
}

func (u *Usage) setCO2(gramsPerKWh float64) {
	if u.Energy != nil {
		u.CO2 = units.CO2(*u.Energy, gramsPerKWh)
	}
}

// queries returns the queries of a report by name.
func queries(want Request) map[string]string {
	w, since, rows := want.Web, want.Since, "team, pipeline"
	if want.By == ByJob {
		rows += ", job_name"
	}
	web := fmt.Sprintf(`{web=~"%s/%s|/.*"}`, w.ModelUUID, w.App)
	own := fmt.Sprintf(`juju_model_uuid=~"%s|",juju_application=~"%s|"`, w.ModelUUID, w.App)
	seconds := "concourse:container_gpu_held_seconds" + web
	// GPU seconds before the requested time are subtracted.
	held := fmt.Sprintf("(max_over_time(%s[%s]) - (%[1]s offset %[2]s) or max_over_time(%[1]s[%[2]s]))", seconds, since)
	busy := fmt.Sprintf("%s * avg_over_time(concourse:container_gpu_busy_ratio%s[%s])", held, web, since)
	of := func(how, expr string) string { return fmt.Sprintf("%s by (%s) (%s)", how, rows, expr) }
	return map[string]string{
		"held":   of("sum", held) + " / 3600",
		"busy":   of("sum", busy) + " / 3600",
		"builds": of("count", fmt.Sprintf("max by (team, pipeline, job_name, build) (%s)", held)),
		"memory": of("max", fmt.Sprintf("max_over_time(concourse:container_gpu_memory_bytes%s[%s])", web, since)),
		// Of series that two exporters have of one container, one counts.
		"energy": fmt.Sprintf("sum by (%s, estimate) (max by (%[1]s, estimate, container) "+
			"(max_over_time(concourse:container_gpu_energy_joules%s[%s]))) / 3.6e6", rows, web, since),
		"wait": fmt.Sprintf(
			`sum by (teamName) (increase(concourse_steps_wait_duration_sum{%s,type="task",workerTags=~".*(gpu|rocm|cuda|gfx=).*"}[%s])) / 3600`,
			own, since),
	}
}

// joinTeams joins the answers by team.
func joinTeams(answers map[string][]sample) []Team {
	pipelines := map[key]*Usage{}
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
	for _, s := range answers["energy"] {
		if u := pipelines[s.key()]; u != nil {
			n := s.number()
			u.addEnergy(&n, s.Metric["estimate"] == "true")
		}
	}
	teams := map[string]*Team{}
	team := func(name string) *Team {
		if teams[name] == nil {
			teams[name] = &Team{Name: name, Pipelines: []Pipeline{}}
		}
		return teams[name]
	}
	for k, u := range pipelines {
		t := team(k.team)
		t.Pipelines = append(t.Pipelines, Pipeline{k.pipeline, k.job, *u})
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
			return cmp.Or(cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Job, b.Job))
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
	u.addEnergy(more.Energy, more.Estimate)
}

func (u *Usage) addEnergy(more *float64, estimate bool) {
	if more == nil {
		return
	}
	sum := *more
	if u.Energy != nil {
		sum += *u.Energy
	}
	u.Energy, u.Estimate = &sum, u.Estimate || estimate
}
