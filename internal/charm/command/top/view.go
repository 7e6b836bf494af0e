// Package top shows the GPUs of an exporter as a table, once or live. It never reads a GPU,
// and changes nothing but the screen.
package top

import (
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// View holds the widest texts since the last change of the width, so that the columns of a
// live table do not jump.
type View struct {
	width          int
	natural, short [columns]int
}

// Frame holds the data of one picture.
type Frame struct {
	Report api.Report
	Age    time.Duration // of the report, if it is late
	Late   string        // why it is not live; "" if it is
	Width  int           // of the screen; 0 for a file
	Height int           // of the screen; 0 for all lines, with idle partitions and whole warnings
}

const (
	minWidth = 20 // a smaller screen shows a part of the picture
	anyWidth = 1000
	// maxWarnings bounds the lines above a live table.
	maxWarnings = 3
)

// Lines returns the picture: at most f.Height lines of at most f.Width characters.
func (v *View) Lines(format term.Format, f Frame) []string {
	width := max(f.Width, minWidth)
	if f.Width == 0 {
		width = anyWidth
	}
	lines := slices.Concat(title(format, f, width), warningLines(format, f, width),
		v.table(format, linesOf(f.Report, f.Height == 0), width), processLines(format, f.Report, width))
	lines = append(lines, chartLines(format, f.Report, width, f.Height-len(lines))...)
	if more := len(lines) - f.Height + 1; f.Height > 0 && more > 1 {
		lines = append(lines[:f.Height-1], cut(fmt.Sprintf("%d more lines: see --once", more), width))
	}
	return lines
}

// title returns the line with the host and the time, and the summary.
func title(format term.Format, f Frame, width int) (lines []string) {
	clock, colour := f.Report.Time.Format("15:04:05 UTC"), ""
	if f.Late != "" {
		clock, colour = "NOT LIVE: "+units.Age(f.Age)+" old", term.Red
		lines = append(lines, format.Paint(colour, cut(f.Late, width)))
	}
	name := cut(api.Heading(f.Report), width-utf8.RuneCountInString(clock)-2)
	head := format.Paint(term.Bold, name) + ", " + format.Paint(colour, cut(clock, width-2))
	return append([]string{head, cut(api.Summary(f.Report), width)}, lines...)
}

// warningLines returns the warnings for a picture. A live one has a few, each on one line.
func warningLines(format term.Format, f Frame, width int) (lines []string) {
	if f.Height == 0 {
		for _, w := range warningsOf(format, f.Report, math.MaxInt) {
			lines = append(lines, commandline.Wrap(w, width)...)
		}
		return lines
	}
	all := warningsOf(format, f.Report, width)
	if more := len(all) - maxWarnings + 1; more > 1 {
		all = append(all[:maxWarnings-1], fmt.Sprintf("%d more warnings: see --once", more))
	}
	for _, w := range all {
		lines = append(lines, format.Paint(term.Yellow, cut(w, width)))
	}
	return lines
}

// warningsOf returns the reasons for the GPUs that are critical, then for those that no new
// task gets. Partitions of a GPU share a line. A reason is cut before its command.
func warningsOf(format term.Format, r api.Report, width int) (critical []string) {
	var excluded []string
	for _, gpus := range api.GroupByGPU(r.GPUs) {
		s := gpus[0]
		if s.Health.State == health.Critical {
			see := gpuhealth.SeeCodes(format.Commands, s.Health.Codes)
			reason := fmt.Sprintf("GPU %s is critical: %s", indexes(gpus), s.Health.Reason)
			critical = append(critical, cut(reason, max(minWidth, width-len(see)))+see)
		}
		out := slices.DeleteFunc(slices.Clone(gpus), func(s api.Status) bool { return !s.Excluded() })
		if len(out) == 0 {
			continue
		}
		which := indexes(gpus)
		if n := len(out); n < len(gpus) {
			which = fmt.Sprintf("%s: partition %d", which, out[0].Partition)
			if n > 1 {
				which += fmt.Sprintf(" and %d more", n-1)
			}
		}
		excluded = append(excluded, fmt.Sprintf("GPU %s has been %s %s", which, out[0].Service.State, out[0].Service.Text()))
	}
	return append(critical, excluded...)
}
