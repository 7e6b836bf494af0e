package actions

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/units"
	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/gpu/health"
)

// Top sets how GPUTop updates its output.
type Top struct {
	Refresh <-chan time.Time // updates the output; nil shows it once
	Rows    func() int       // of the terminal; not used without Refresh
}

// GPUTop shows the users of each GPU, as reported by the exporter, until ctx is done. On a
// terminal each update replaces the previous one.
func (c *Actions) GPUTop(ctx context.Context, w io.Writer, f term.Format, top Top) error {
	var last api.Report
	for {
		r, err := gpuhealth.Fetch(ctx, c.Host, c.ExporterURL)
		remark := ""
		if err != nil && last.GPUs == nil && c.ReadReport != nil && ctx.Err() == nil {
			return c.topOnce(ctx, w, f, err)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && last.GPUs == nil:
			return fmt.Errorf(
				"cannot show who uses the GPUs: %w; rocm-exporter runs on workers with GPUs: sudo PEBBLE=%s %s "+
					"services shows whether it does",
				err, role.PebbleDir, role.PebbleBin)
		case err != nil:
			remark = "NOT LIVE: " + err.Error() + "; the values are of " + last.Time.Format("15:04:05 UTC")
		default:
			last = r
		}
		if f.JSON {
			for i := range r.GPUs {
				r.GPUs[i].History, r.GPUs[i].Explained = nil, nil
			}
			return term.JSON(w, r)
		}
		if top.Refresh == nil {
			_, err := io.WriteString(w, strings.Join(topLines(last, f, 0), "\n")+"\n")
			return err
		}
		if _, err := io.WriteString(w, redraw(topLines(last, f, top.Rows()-2), remark)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-top.Refresh:
		}
	}
}

// topOnce shows the users of each GPU as this program reads them, if no exporter answers.
func (c *Actions) topOnce(ctx context.Context, w io.Writer, f term.Format, why error) error {
	r, err := c.ReadReport(ctx)
	if err != nil {
		return fmt.Errorf("cannot show who uses the GPUs: %w, and %w", why, err)
	}
	if f.JSON {
		return term.JSON(w, r)
	}
	lines := append(topLines(r, f, 0), fmt.Sprintf("read once, because %s", why))
	if os.Geteuid() != 0 {
		lines = append(lines, "processes of other users are not shown: run it with sudo")
	}
	_, err = io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// redraw returns lines that replace the screen. Long lines are cut at the edge of the
// screen. The terminal's settings stay as they were, however the program ends.
func redraw(lines []string, remark string) string {
	const home, rest, below, cut, wrap = "\x1b[H", "\x1b[K\n", "\x1b[J", "\x1b[?7l", "\x1b[?7h"
	return home + cut + strings.Join(append(lines, remark), rest) + rest + below + wrap
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

// topLines returns a table with a line for each user of each GPU. If the table has more
// lines than rows, healthy GPUs without users are left out first. 0 rows is any number.
func topLines(r api.Report, f term.Format, rows int) []string {
	head := []string{api.Heading(r) + ", " + r.Time.Format("15:04:05 UTC") + ": " + api.Summary(r)}
	head = append(head, gpuhealth.Critical(gpuhealth.States(r.GPUs))...)
	head = append(head, gpuhealth.OutOfService(r.GPUs)...)
	divided, out := false, false
	for i := range r.GPUs {
		divided, out = divided || r.GPUs[i].Partitions > 1, out || r.GPUs[i].Excluded()
	}
	title := cells("GPU", "PART", "HEALTH", "SERVICE", "BUSY", "USED BY", "LEASED", "MEMORY", "ENGINES", "CU", "PROC",
		"TEMP", "POWER", "VRAM")
	var busy, idle [][]term.Cell
	for i := range r.GPUs {
		lines, used := topGPU(&r.GPUs[i], r.Time)
		idle = append(idle, lines...)
		if used {
			busy = append(busy, lines...)
		}
	}
	all := idle
	if rows > 0 && len(head)+1+len(all) > rows {
		head = append(head, fmt.Sprintf("GPUs that are well and not in use are left out: %d", len(all)-len(busy)))
		all = busy
	}
	all = append([][]term.Cell{title}, all...)
	for i := range all { // empty columns are left out
		if !out {
			all[i] = slices.Delete(all[i], colService, colService+1)
		}
		if !divided {
			all[i] = slices.Delete(all[i], colPartition, colPartition+1)
		}
	}
	lines := append(head, f.Table(all)...)
	if rows > 0 && len(lines) > rows {
		lines = append(lines[:max(0, rows-1)], fmt.Sprintf(
			"%d more lines; --once shows all", len(lines)-max(0, rows-1),
		))
	}
	return lines
}

// topGPU returns the lines of a GPU; the first line has the GPU's own values. used reports
// whether the lines are shown if there is little room.
func topGPU(s *api.Status, at time.Time) (lines [][]term.Cell, used bool) {
	value := func(format string, v *float64, per float64) term.Cell {
		if v == nil {
			return term.Cell{Text: "-"}
		}
		return term.Cell{Text: fmt.Sprintf(format, *v/per)}
	}
	state := s.Health.State
	if state == "" {
		state = health.Unknown
	}
	memory := value("%.1f", s.MemoryUsed, 1<<30)
	if s.MemoryUsed != nil && s.MemoryTotal != nil {
		memory.Text += "/" + units.FormatGiB(*s.MemoryTotal)
	}
	uses := api.UsesOf(*s, at)
	used = len(uses) > 0 || state != health.Healthy || s.Excluded()
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
	return lines, used
}
