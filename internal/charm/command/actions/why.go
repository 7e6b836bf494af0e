package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/builds"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpurun"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// why holds the answer in JSON.
type why struct {
	verdict.Entry
	Reasons []verdict.Reason `json:"reasons"`
	Running bool             `json:"running"`
	// Incomplete reports that the run ended, but its record can still change.
	Incomplete bool `json:"incomplete,omitempty"`
	// Quarantined has a sentence for each of its GPUs that is not in service, while it runs.
	Quarantined []string             `json:"quarantined,omitempty"`
	Kernel      []taskrecord.Line    `json:"kernel"`
	Unread      string               `json:"kernel_unread,omitempty"`
	Dumps       []taskrecord.DumpRef `json:"dumps"`
	Output      []string             `json:"output"` // its last lines about an error
	Timeline    taskrecord.Timeline  `json:"timeline"`
}

// timelineWidth limits the intervals of a timeline.
const timelineWidth = 60

// Why shows why a task, run or container failed: its verdict, the reasons with their numbers and
// fixes, and the timeline of its readings. which is its handle or the beginning; with "" it is the
// last that failed on this machine, if one did.
func (c *Actions) Why(ctx context.Context, w io.Writer, which string, f term.Format) error {
	a, err := c.findWhy(ctx, which)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return c.whyWithoutRoot(w, which, f)
	case errors.Is(err, taskrecord.ErrNoneFailed):
		return writeNoneFailed(w, f)
	case err != nil:
		return err
	}
	return a.write(w, f)
}

func writeNoneFailed(w io.Writer, f term.Format) error {
	if f.JSON {
		return term.JSON(w, nil)
	}
	_, err := fmt.Fprintln(w, taskrecord.ErrNoneFailed)
	return err
}

// WhyForUser shows a run to its user as Why does. Of the kernel's lines it shows those about
// own GPUs and processes.
func (c *Actions) WhyForUser(ctx context.Context, w io.Writer, run string, f term.Format) error {
	a, err := c.findWhy(ctx, run)
	if err != nil {
		return err
	}
	a.Kernel = slices.DeleteFunc(a.Kernel, func(l taskrecord.Line) bool { return !l.Own })
	a.Dumps, a.Unread = []taskrecord.DumpRef{}, cmp.Or(a.Unread, onlyOwnLines)
	return a.write(w, f)
}

// These replace the kernel's lines that only root may read.
const (
	onlyRootReads = "run it with sudo to see its lines"
	onlyOwnLines  = "run it with sudo to see lines about others"
)

// findWhy returns the record of a task, run or container.
func (c *Actions) findWhy(ctx context.Context, which string) (a why, err error) {
	store := taskrecord.Store{Dir: c.Host.Path(taskrecord.DefaultDir)}
	report, _ := verdict.ReportFile(verdict.ReportPath).Read(c.Host.Root) // without a recorder it is missing
	if which == "" && len(report.Details) > 0 && store.Open(report.Details[0].Handle) {
		which = report.Details[0].Handle
	}
	file, err := store.Find(which)
	if err != nil {
		return a, err
	}
	r, err := file.Read()
	if err != nil {
		return a, err
	}
	faults, _ := quarantine.RecordFile.Read(c.Host.Root) // without GPUs it is missing
	r.Events = append(r.Events, verdict.FaultsOf(&r, faults)...)
	v, evidence := verdict.SoFar(r, c.Host.Now()), r.Evidence
	if r.End != nil {
		v, evidence = verdict.Decide(&r), r.End.Evidence
	}
	a = why{Entry: verdict.EntryOf(&r, v), Reasons: v.Reasons, Running: r.End == nil,
		Kernel: append([]taskrecord.Line{}, evidence.Kernel...), Dumps: append([]taskrecord.DumpRef{}, evidence.Dumps...),
		Output: []string{}, Timeline: taskrecord.TimelineOf(&r, timelineWidth)}
	if r.End != nil {
		a.Unread = r.End.Unread
	}
	if s, ended := report.Find(a.Handle); ended && a.Running && a.Holder == lease.Run {
		a.Entry, a.Running, a.Incomplete = s.Entry, false, true
		a.Reasons = append([]verdict.Reason{}, s.Reasons...)
	}
	for _, g := range r.Head.GPUs {
		if q := faults.Find(g.Name); a.Running && q != nil && q.Text() != "" {
			a.Quarantined = append(a.Quarantined, fmt.Sprintf("GPU %s %s", g.Name, q.Text()))
		}
	}
	if v.Kind == verdict.Task {
		a.Output = append(a.Output, c.errorsOf(ctx, a.Handle)...)
	}
	return a, nil
}

func (a why) write(w io.Writer, f term.Format) error {
	if f.JSON {
		return term.JSON(w, a)
	}
	_, err := io.WriteString(w, a.text())
	return err
}

// whyWithoutRoot shows what all users may read: the last failures, without the kernel's lines.
//
// A process that is part of a run gets the record of this run from the lease service.
func (c *Actions) whyWithoutRoot(w io.Writer, which string, f term.Format) error {
	if rungroup.IsRun(which) {
		client := gpurun.Client{Socket: c.Host.Path(gpurun.Socket)}
		if text, err := client.Explain(which, f.JSON); err == nil {
			_, err = io.WriteString(w, text)
			return err
		}
	}
	report, err := verdict.ReportFile(verdict.ReportPath).Read(c.Host.Root)
	if err != nil {
		return err
	}
	switch {
	case report.At.IsZero() && len(report.Details) == 0:
		return errors.New("cannot read the last failures: the recorder has not reported yet; run it with sudo")
	case which == "" && len(report.Details) == 0:
		return writeNoneFailed(w, f)
	}
	for _, d := range report.Details {
		if strings.HasPrefix(d.Handle, strings.ToLower(which)) {
			a := why{Entry: d.Entry, Reasons: d.Reasons, Kernel: []taskrecord.Line{}, Unread: onlyRootReads,
				Dumps: []taskrecord.DumpRef{}, Output: []string{}, Timeline: d.Timeline}
			return a.write(w, f)
		}
	}
	return fmt.Errorf("cannot find a failure %q among the last %d: only root can read the records; run it with sudo",
		which, len(report.Details))
}

// errorsOf returns the last lines that a task printed about an error. Only a machine with the
// login of concourse-exporter can read them.
func (c *Actions) errorsOf(ctx context.Context, handle string) []string {
	data, err := c.Host.ReadFile(role.JobsCredentials)
	if err != nil {
		return nil
	}
	credentials, err := login.Parse(data)
	if err != nil {
		return nil
	}
	client := webclient.New(credentials, nil, c.Host.Now)
	defer client.Close()
	lines, _ := builds.ErrorsOf(ctx, func(ctx context.Context, path string) (io.ReadCloser, error) {
		return client.Open(ctx, webclient.Request{Path: path})
	}, handle)
	return lines
}

func (a why) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", a.Holder, a.Handle)
	if a.Title != "" {
		fmt.Fprintf(&b, " (%s)", a.Title)
	}
	fmt.Fprintf(&b, " from %s to %s (%s)", a.Started.Format("2006-01-02 15:04:05"),
		a.Ended.Format("15:04:05 UTC"), units.Duration(a.Ended.Sub(a.Started)))
	switch {
	case a.Running:
		b.WriteString(", running\n")
	case a.Exit == nil:
		b.WriteString(", exit status not known\n")
	default:
		fmt.Fprintf(&b, ", exit status %d\n", *a.Exit)
	}
	switch {
	case a.Running: // it can still fail, or have failed already in a step of a job
		fmt.Fprintf(&b, "verdict so far, without an exit status: %s\n",
			cmp.Or(string(a.Kind), "none, as no sign shows a failure"))
	case a.Kind == "" && a.Exit == nil:
		b.WriteString("verdict: none, as no sign shows a failure\n")
	default:
		fmt.Fprintf(&b, "verdict: %s\n", cmp.Or(string(a.Kind), verdict.Succeeded))
	}
	if a.Incomplete {
		b.WriteString("its record is not complete yet: run this again in half a minute\n")
	}
	if a.Energy != nil {
		fmt.Fprintf(&b, "energy of its GPUs: %s\n", a.Energy)
	}
	if a.Clocks != nil {
		fmt.Fprintf(&b, "clocks of its GPUs: %s\n", a.Clocks)
	}
	for _, reason := range a.Reasons {
		sign := "also"
		if reason.Cause || !reason.Kind.Infrastructure() {
			sign = "because"
		}
		fmt.Fprintf(&b, "  %s: %s (%s)\n    fix: %s\n", sign, reason.Text, reason.Code, reason.Fix)
	}
	for _, text := range a.Quarantined {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	for _, line := range a.Output {
		fmt.Fprintf(&b, "output: %s\n", line)
	}
	writeTimeline(&b, a.Timeline)
	for _, line := range a.Kernel {
		fmt.Fprintf(&b, "kernel: %s %s\n", line.At.Format("15:04:05.000"), line.Text)
	}
	if a.Unread != "" {
		fmt.Fprintf(&b, "kernel's log: %s\n", a.Unread)
	}
	for _, d := range a.Dumps {
		fmt.Fprintf(&b, "dump of GPU %s: %s\n", d.GPU, d.Text())
	}
	return b.String()
}

// bars are eight heights of a value.
var bars = []rune("▁▂▃▄▅▆▇█")

// bar returns the bar of a share. A reading may be negative, such as a temperature.
func bar(share float64) rune {
	top := float64(len(bars) - 1)
	if !(share > 0) {
		share = 0
	}
	return bars[int(min(share, 1)*top+.5)]
}

// writeTimeline draws one chart under the other, with the events below them.
func writeTimeline(b *strings.Builder, t taskrecord.Timeline) {
	gpu := ""
	for _, c := range t.Charts {
		if c.GPU != gpu {
			gpu = c.GPU
			fmt.Fprintf(b, "GPU %s\n", gpu)
		}
		fmt.Fprintf(b, "  %-18s ", c.Name)
		for _, v := range c.Values {
			if v == nil {
				b.WriteByte(' ')
				continue
			}
			b.WriteRune(bar(*v / c.Most))
		}
		fmt.Fprintf(b, " max %.0f %s\n", c.Most, c.Unit)
	}
	if len(t.Marks) == 0 {
		return
	}
	width := timelineWidth
	for _, c := range t.Charts {
		width = max(width, len(c.Values))
	}
	line := []rune(strings.Repeat(" ", width))
	for _, m := range t.Marks {
		line[min(max(m.At, 0), width-1)] = '^'
	}
	fmt.Fprintf(b, "  %-18s %s\n", "events", strings.TrimRight(string(line), " "))
	for _, m := range t.Marks {
		fmt.Fprintf(b, "    %s %s %s\n", m.Time.Format("15:04:05"), m.Kind, m.GPU)
	}
}
