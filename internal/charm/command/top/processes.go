package top

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

// processLines returns the table of the processes of each GPU, with the whole name of their
// container or run. A user without a process that has memory has a line, too.
func processLines(format term.Format, r api.Report, width int) []string {
	rows := [][]term.Cell{row("GPU", "PID", "PROCESS", "MEMORY", "USED BY", "LEASED")}
	for i := range r.GPUs {
		s := &r.GPUs[i]
		uses, index := api.UsesOf(*s, r.Time), fmt.Sprintf("%3s", prefixOf(*s, r)+fmt.Sprint(s.Index))
		for _, p := range s.Processes {
			user, leased := userOf(p, uses)
			pid := fmt.Sprint(p.PID)
			if p.PID == 0 {
				pid = ""
			}
			rows = append(rows, row(index, pid, cmp.Or(p.Name, "unknown"), units.Bytes(p.Memory), user, leased))
		}
		for _, u := range uses {
			if len(u.Named) > 0 {
				continue
			}
			processes := ""
			if u.Processes > 0 {
				processes = units.Count(u.Processes, "process")
			}
			rows = append(rows, row(index, "", processes, "", u.Name, u.Lease))
		}
	}
	if len(rows) == 1 {
		return nil
	}
	lines := term.Format{}.Table(rows)
	if widest(lines) > width { // a whole name is better than the age of its lease
		for i := range rows {
			rows[i] = rows[i][:len(rows[i])-1]
		}
		lines = term.Format{}.Table(rows)
	}
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	lines[0] = format.Paint(term.Bold, lines[0])
	return append([]string{""}, lines...)
}

func widest(lines []string) (width int) {
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line))
	}
	return width
}

func row(texts ...string) (cells []term.Cell) {
	for _, text := range texts {
		cells = append(cells, term.Cell{Text: text})
	}
	return cells
}

// userOf returns the name of a process's container or run, and the age of its lease.
func userOf(p usage.Process, uses []api.Use) (name, leased string) {
	for _, u := range uses {
		if slices.Contains(u.Named, p) {
			if p.Container == "" {
				break // its name is that of the process
			}
			return u.Name, u.Lease
		}
	}
	switch {
	case p.Host:
		return "the host", ""
	case p.Screen:
		return "the desktop", ""
	}
	return cmp.Or(p.Container, "no container"), ""
}
