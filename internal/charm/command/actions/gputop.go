package actions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/top"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// Top sets how GPUTop shows the GPUs. The zero value is for files and pipes.
type Top struct {
	Columns int       // of the terminal
	Live    *top.Live // repeats on the terminal; nil shows the GPUs once
}

// GPUTop shows the users of each GPU, as the exporter reads them now. Without the exporter it
// shows their last record. On a terminal the table has its width.
func (c *Actions) GPUTop(ctx context.Context, w io.Writer, f term.Format, how Top) error {
	fetch := func(ctx context.Context) (api.Report, error) { return gpuhealth.Fetch(ctx, c.Host, c.ExporterURL) }
	r, why := fetch(ctx)
	if ctx.Err() != nil {
		return nil
	}
	once := ""
	if why != nil {
		var err error
		if r, once, err = c.report(ctx); err != nil {
			return fmt.Errorf("cannot show who uses the GPUs: %w; %w", why, err)
		}
	}
	switch {
	case f.JSON:
		r.GPUs = withoutPage(r.GPUs)
		return term.JSON(w, r)
	case why == nil && how.Live != nil:
		return how.Live.Run(ctx, r, fetch)
	}
	lines := topLines(r, f)
	if how.Columns > 0 {
		lines = top.Table(f, r, how.Columns)
	}
	if why != nil {
		lines = append(lines, fmt.Sprintf("not live: %s", why))
	}
	if once != "" && os.Geteuid() != 0 {
		lines = append(lines, "processes of other users are not shown: run it with sudo")
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// The columns of the table, in order.
const (
	colGPU = iota
	colPartition
	colHealth
	colService
	colBusy
	colUser
	colLease
	colMemory
	colEngines
	colUnits
	colProcesses
	colTemperature
	colPower
	colVRAM
	columns
)

// topLines returns a table of any width, with a line for each user of each GPU.
func topLines(r api.Report, f term.Format) []string {
	head := []string{api.Heading(r) + ", " + r.Time.Format("15:04:05 UTC") + ": " + api.Summary(r)}
	head = append(head, gpuhealth.Critical(f.Commands, r.GPUs)...)
	head = append(head, gpuhealth.NotInService(r.GPUs)...)
	divided, out := false, false
	for i := range r.GPUs {
		divided, out = divided || r.GPUs[i].Partitions > 1, out || r.GPUs[i].Excluded()
	}
	all := [][]term.Cell{cells("GPU", "PART", "HEALTH", "SERVICE", "BUSY", "USED BY", "LEASED", "MEMORY", "ENGINES",
		"CU", "PROC", "TEMP", "POWER", "VRAM")}
	for i := range r.GPUs {
		all = append(all, topGPU(&r.GPUs[i], r.Time)...)
	}
	for i := range all { // empty columns are left out
		if !out {
			all[i] = slices.Delete(all[i], colService, colService+1)
		}
		if !divided {
			all[i] = slices.Delete(all[i], colPartition, colPartition+1)
		}
	}
	return append(head, f.Table(all)...)
}

// topGPU returns the lines of a GPU. The first line has the values of the GPU.
func topGPU(s *api.Status, at time.Time) (lines [][]term.Cell) {
	value := func(format string, v *float64, per float64) term.Cell {
		if v == nil {
			return term.Cell{Text: "-"}
		}
		return term.Cell{Text: fmt.Sprintf(format, *v/per)}
	}
	state := s.Health.State
	state = cmp.Or(state, health.Unknown)
	memory := value("%.1f", s.MemoryUsed, 1<<30)
	if s.MemoryUsed != nil && s.MemoryTotal != nil {
		memory.Text += "/" + units.FormatGiB(*s.MemoryTotal)
	}
	uses := api.UsesOf(*s, at)
	if len(uses) == 0 {
		uses = []api.Use{{Name: api.Unused(*s)}}
	}
	for i, u := range uses {
		line := make([]term.Cell, columns)
		if i == 0 {
			line[colGPU].Text, line[colPartition].Text = fmt.Sprint(s.Index), fmt.Sprint(s.Partition)
			line[colHealth] = term.Cell{Text: string(state), Colour: term.StateColour(state)}
			if v := s.Service; v != nil {
				line[colService].Text = strings.ReplaceAll(string(v.State), "_", " ")
			}
			if s.Excluded() {
				line[colService].Colour = term.Red
			}
			line[colBusy] = value("%.0f %%", s.Activity, .01)
			line[colTemperature] = value("%.0f °C", s.Temperature, 1)
			line[colPower], line[colVRAM] = value("%.0f W", s.Power, 1), memory
		}
		line[colUser].Text, line[colLease].Text, line[colMemory].Text = u.Name, u.Lease, u.Memory
		line[colEngines].Text, line[colUnits].Text = u.Engines, u.Units
		if u.Processes > 0 {
			line[colProcesses].Text = fmt.Sprint(u.Processes)
		}
		lines = append(lines, line)
	}
	return lines
}
