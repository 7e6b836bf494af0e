package actions

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/gpu/health"
)

// Top is how GPUTop shows what it does.
type Top struct {
	Again <-chan time.Time // when to look again; nil: once
	Rows  func() int       // of the terminal, where it looks again
}

// GPUTop shows who uses each GPU as the exporter tells, until ctx is done. On a
// terminal one look takes the place of the last.
func (c *Actions) GPUTop(ctx context.Context, w io.Writer, f term.Format, top Top) error {
	var last api.Report
	for {
		r, err := gpuhealth.Ask(ctx, c.Host, c.ExporterURL)
		remark := ""
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && last.GPUs == nil:
			return fmt.Errorf("cannot show who uses the GPUs: %w; rocm-exporter runs on workers with GPUs: sudo PEBBLE=%s %s services shows whether it does",
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
		if top.Again == nil {
			_, err := io.WriteString(w, strings.Join(topLines(last, f, 0), "\n")+"\n")
			return err
		}
		if _, err := io.WriteString(w, frame(topLines(last, f, top.Rows()-2), remark)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-top.Again:
		}
	}
}

// frame draws over what was there. Long lines end at the edge of the screen; whatever
// ends the program, the terminal is as it was.
func frame(lines []string, remark string) string {
	const home, rest, below, cut, wrap = "\x1b[H", "\x1b[K\n", "\x1b[J", "\x1b[?7l", "\x1b[?7h"
	return home + cut + strings.Join(append(lines, remark), rest) + rest + below + wrap
}

// topLines is a table with a line for each user of each GPU. Where that is more than so
// many rows, GPUs that are idle and well are left out first; 0 is any number.
func topLines(r api.Report, f term.Format, rows int) []string {
	head := []string{api.Heading(r) + ", " + r.Time.Format("15:04:05 UTC") + ": " + api.Summary(r)}
	head = append(head, gpuhealth.Critical(gpuhealth.States(r.GPUs))...)
	head = append(head, gpuhealth.Out(r.GPUs)...)
	divided, out := false, false
	for i := range r.GPUs {
		divided, out = divided || r.GPUs[i].Partitions > 1, out || r.GPUs[i].Excluded()
	}
	title := []term.Cell{{Text: "GPU"}, {Text: "PART"}, {Text: "HEALTH"}, {Text: "SERVICE"}, {Text: "BUSY"}, {Text: "USED BY"}, {Text: "LEASED"}, {Text: "MEMORY"},
		{Text: "ENGINES"}, {Text: "CU"}, {Text: "PROC"}, {Text: "TEMP"}, {Text: "POWER"}, {Text: "VRAM"}}
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
	for i := range all { // columns that tell nothing are left out
		if !out {
			all[i] = slices.Delete(all[i], 3, 4)
		}
		if !divided {
			all[i] = slices.Delete(all[i], 1, 2)
		}
	}
	lines := append(head, f.Table(all)...)
	if rows > 0 && len(lines) > rows {
		lines = append(lines[:max(0, rows-1)], fmt.Sprintf("%d more lines; --once shows all", len(lines)-max(0, rows-1)))
	}
	return lines
}

// topGPU are the lines of a GPU, of which the first has what it does itself. used is
// whether they are of interest where there is little room.
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
		memory.Text += fmt.Sprintf("/%.1f GiB", *s.MemoryTotal/(1<<30))
	}
	uses := api.UsesOf(*s, at)
	used = len(uses) > 0 || state != health.Healthy || s.Excluded()
	if len(uses) == 0 {
		uses = []api.Use{{Name: api.Unused(*s)}}
	}
	for i, u := range uses {
		line := make([]term.Cell, 14)
		if i == 0 {
			line[0].Text, line[1].Text = fmt.Sprint(s.Index), fmt.Sprint(s.Partition)
			line[2] = term.Cell{Text: string(state), Colour: term.StateColour(state)}
			if v := s.Service; v != nil {
				line[3].Text = strings.ReplaceAll(string(v.State), "_", " ")
			}
			if s.Excluded() {
				line[3].Colour = term.Red
			}
			line[4] = value("%.0f %%", s.Activity, .01)
			line[11], line[12], line[13] = value("%.0f °C", s.Temperature, 1), value("%.0f W", s.Power, 1), memory
		}
		line[5].Text, line[6].Text, line[7].Text, line[8].Text, line[9].Text = u.Name, u.Lease, u.Memory, u.Engines, u.Units
		if u.Processes > 0 {
			line[10].Text = fmt.Sprint(u.Processes)
		}
		lines = append(lines, line)
	}
	return lines, used
}
