package actions

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/units"
	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/charm/command/usagereport"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/model"
)

// gpuUsage returns the GPU usage of builds. Only a Prometheus stores it.
func (c *Actions) gpuUsage(ctx context.Context, u unitState, params map[string]any) (map[string]any, error) {
	if err := u.checkUsable("tell the usage of GPUs", model.WebRole); err != nil {
		return nil, err
	}
	if u.Config.Web.PrometheusURL == "" {
		return nil, errors.New(
			"cannot tell the usage of GPUs: only a Prometheus keeps it; set prometheus-url to one that scrapes " +
				"webs and workers")
	}
	since := "7d"
	if given, ok := params["since"].(string); ok {
		since = given
	}
	if err := usagereport.CheckWindow(since); err != nil {
		return nil, fmt.Errorf("cannot tell the usage of GPUs: since: %w", err)
	}
	r, err := usagereport.Fetch(
		ctx, u.Config.Web.PrometheusURL, usagereport.Web{ModelUUID: c.Event.ModelUUID, App: c.Event.App()},
		since, c.Host.Clock.Now())
	if err != nil {
		return nil, fmt.Errorf("cannot tell the usage of GPUs: %w", err)
	}
	var b strings.Builder
	switch params["format"] {
	case "json":
		err = term.JSON(&b, r)
	case "csv":
		err = usageCSV(&b, r)
	default:
		usageText(&b, r)
	}
	return map[string]any{"usage": strings.TrimSpace(b.String())}, err
}

// allPipelines is the pipeline of a team's total. It is not an identifier in Concourse.
const allPipelines = "*"

// usageCSV writes a line for each team and each of its pipelines. Hours have six decimal
// places, which is finer than one GPU-second.
func usageCSV(to io.Writer, r usagereport.Report) error {
	w := csv.NewWriter(to)
	// see Error
	w.Write([]string{"team", "pipeline", "builds", "gpu_hours", "busy_gpu_hours", "peak_memory_bytes", "wait_hours"})
	hours := func(n float64) string { return strconv.FormatFloat(n, 'f', 6, 64) }
	line := func(team, pipeline string, u usagereport.Usage, wait string) {
		busy, memory := "", ""
		if u.BusyHours != nil {
			busy = hours(*u.BusyHours)
		}
		if u.Memory != nil {
			memory = strconv.FormatFloat(*u.Memory, 'f', 0, 64)
		}
		w.Write([]string{
			escapeFormula(team), escapeFormula(pipeline), strconv.Itoa(u.Builds), hours(u.GPUHours),
			busy, memory, wait,
		})
	}
	for _, t := range r.Teams {
		line(t.Name, allPipelines, t.Usage, hours(t.WaitHours))
		for _, p := range t.Pipelines {
			line(t.Name, p.Name, p.Usage, "")
		}
	}
	w.Flush()
	return w.Error()
}

// escapeFormula quotes a name that a spreadsheet would compute as a formula.
func escapeFormula(name string) string {
	if name != "" && name != allPipelines && strings.ContainsRune("=+-@\t\r", rune(name[0])) {
		return "'" + name
	}
	return name
}

func usageText(b *strings.Builder, r usagereport.Report) {
	fmt.Fprintf(b, "GPUs that builds had in the last %s, until %s\n", r.Since, r.Until.Format(time.DateTime+" MST"))
	if len(r.Teams) == 0 {
		b.WriteString(
			"none: no build had one, or this Prometheus lacks the charm's rules or does not scrape webs and workers\n",
		)
		return
	}
	rows := [][]term.Cell{cells("TEAM", "PIPELINE", "BUILDS", "GPU-HOURS", "BUSY", "MOST MEMORY", "HOURS WAITED")}
	row := func(team, pipeline string, u usagereport.Usage, wait string) {
		busy, memory := "?", "?"
		if u.BusyHours != nil && u.GPUHours > 0 {
			busy = fmt.Sprintf("%.0f %%", 100**u.BusyHours/u.GPUHours)
		}
		if u.Memory != nil {
			memory = units.FormatGiB(*u.Memory)
		}
		rows = append(rows, cells(gpuhealth.Printable(team), gpuhealth.Printable(pipeline), strconv.Itoa(u.Builds),
			fmt.Sprintf("%.2f", u.GPUHours), busy, memory, wait))
	}
	for _, t := range r.Teams {
		row(t.Name, allPipelines, t.Usage, fmt.Sprintf("%.2f", t.WaitHours))
		for _, p := range t.Pipelines {
			if p.Name == "" {
				p.Name = "(fly execute)"
			}
			row(t.Name, p.Name, p.Usage, "")
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
