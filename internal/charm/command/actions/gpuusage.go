package actions

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/usagereport"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
)

// gpuUsage returns the GPU usage of builds. Only a Prometheus stores it.
func (c *Actions) gpuUsage(ctx context.Context, u charm.Decision, params map[string]any) (map[string]any, error) {
	if err := checkUsable(u, "show the usage of GPUs", model.WebRole); err != nil {
		return nil, err
	}
	if u.Config.Web.PrometheusURL == "" {
		return nil, errors.New(
			"cannot show the usage of GPUs: only a Prometheus keeps it; set prometheus-url to one that scrapes " +
				"webs and workers")
	}
	since := "7d"
	if given, ok := params["since"].(string); ok {
		since = given
	}
	if err := usagereport.CheckWindow(since); err != nil {
		return nil, fmt.Errorf("cannot show the usage of GPUs: since: %w", err)
	}
	want := usagereport.Request{Web: usagereport.Web{ModelUUID: c.Event.ModelUUID, App: c.Event.App()}, Since: since,
		By: usagereport.ByPipeline, CO2GramsPerKWh: u.Config.CO2GramsPerKWh}
	if params["by"] == string(usagereport.ByJob) {
		want.By = usagereport.ByJob
	}
	r, err := usagereport.Fetch(ctx, u.Config.Web.PrometheusURL, want, c.Host.Clock.Now())
	if err != nil {
		return nil, fmt.Errorf("cannot show the usage of GPUs: %w", err)
	}
	var b strings.Builder
	switch params["format"] {
	case "json":
		err = term.JSON(&b, r)
	case "csv":
		err = usageCSV(&b, r, want)
	default:
		usageText(&b, r, want)
	}
	return map[string]any{"usage": strings.TrimSpace(b.String())}, err
}

// allPipelines is the pipeline of a team's total. It is not an identifier in Concourse.
const allPipelines = "*"

// usageCSV writes a line for each team and each of its pipelines or jobs. Hours and kWh have
// six decimal places, which is finer than one GPU-second.
func usageCSV(to io.Writer, r usagereport.Report, want usagereport.Request) error {
	w := csv.NewWriter(to)
	number := func(n *float64, decimals int) string {
		if n == nil {
			return ""
		}
		return strconv.FormatFloat(*n, 'f', decimals, 64)
	}
	line := func(team, pipeline, job string, u usagereport.Usage, wait string) {
		estimate := ""
		if u.Energy != nil {
			estimate = strconv.FormatBool(u.Estimate)
		}
		w.Write(usageColumns(want, []string{
			escapeFormula(team), escapeFormula(pipeline), escapeFormula(job), strconv.Itoa(u.Builds),
			number(&u.GPUHours, 6), number(u.BusyHours, 6), number(u.Memory, 0), wait,
			number(u.Energy, 6), estimate, number(u.CO2, 6)})) // see Error
	}
	w.Write(usageColumns(want, []string{"team", "pipeline", "job", "builds", "gpu_hours", "busy_gpu_hours",
		"peak_memory_bytes", "wait_hours", "energy_kwh", "energy_estimate", "co2_kg"}))
	for _, t := range r.Teams {
		line(t.Name, allPipelines, allPipelines, t.Usage, number(&t.WaitHours, 6))
		for _, p := range t.Pipelines {
			line(t.Name, p.Name, p.Job, p.Usage, "")
		}
	}
	w.Flush()
	return w.Error()
}

// usageColumns removes the job and the CO2, which are the third and the last column, unless they
// are requested.
func usageColumns(want usagereport.Request, all []string) []string {
	if want.CO2GramsPerKWh == 0 {
		all = all[:len(all)-1]
	}
	if want.By != usagereport.ByJob {
		all = slices.Delete(all, 2, 3)
	}
	return all
}

// escapeFormula quotes a name that a spreadsheet would compute as a formula.
func escapeFormula(name string) string {
	if name != "" && name != allPipelines && strings.ContainsRune("=+-@\t\r", rune(name[0])) {
		return "'" + name
	}
	return name
}

func usageText(b *strings.Builder, r usagereport.Report, want usagereport.Request) {
	fmt.Fprintf(b, "GPUs that builds had in the last %s, until %s\n", r.Since, r.Until.Format(time.DateTime+" MST"))
	if len(r.Teams) == 0 {
		b.WriteString(
			"none: no build had one, or this Prometheus lacks the charm's rules or does not scrape webs and workers\n",
		)
		return
	}
	rows := [][]term.Cell{cells(usageColumns(want, []string{"TEAM", "PIPELINE", "JOB", "BUILDS", "GPU-HOURS", "BUSY",
		"MOST MEMORY", "HOURS WAITED", "ENERGY", "CO2"})...)}
	row := func(team, pipeline, job string, u usagereport.Usage, wait string) {
		busy, memory, energy, co2 := "?", "?", "?", "?"
		if u.BusyHours != nil && u.GPUHours > 0 {
			busy = fmt.Sprintf("%.0f %%", 100**u.BusyHours/u.GPUHours)
		}
		if u.Memory != nil {
			memory = units.FormatGiB(*u.Memory)
		}
		if u.Energy != nil {
			energy = fmt.Sprintf("%.2f kWh", *u.Energy)
		}
		if u.Energy != nil && u.Estimate {
			energy = "~" + energy
		}
		if u.CO2 != nil {
			co2 = fmt.Sprintf("%.2f kg", *u.CO2)
		}
		rows = append(rows, cells(usageColumns(want, []string{
			gpuhealth.Printable(team), gpuhealth.Printable(pipeline), gpuhealth.Printable(job),
			strconv.Itoa(u.Builds), fmt.Sprintf("%.2f", u.GPUHours), busy, memory, wait, energy, co2,
		})...))
	}
	for _, t := range r.Teams {
		row(t.Name, allPipelines, allPipelines, t.Usage, fmt.Sprintf("%.2f", t.WaitHours))
		for _, p := range t.Pipelines {
			if p.Name == "" {
				p.Name = "(fly execute)"
			}
			row(t.Name, p.Name, p.Job, p.Usage, "")
		}
	}
	for _, line := range (term.Format{}).Table(rows) {
		b.WriteString(line + "\n")
	}
}

func cells(texts ...string) (row []term.Cell) {
	for _, text := range texts {
		row = append(row, term.Cell{Text: text})
	}
	return row
}
