package watcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// saveEvidence stores the evidence on the tasks that were judged at this look, before the
// kernel overwrites its log.
func (u *Unit) saveEvidence(w io.Writer, before, now quarantine.Record) error {
	var more []quarantine.Evidence
	for _, run := range quarantine.NewFaultyRuns(before, now) {
		e := quarantine.Evidence{Run: run}
		e.Kernel, e.Unread = u.kernelLines(run)
		more = append(more, e)
		fmt.Fprintf(w, "%s: %s: %s\n", holderName(run.Container), run.Verdict, run.Reason)
	}
	if len(more) == 0 {
		return nil
	}
	return quarantine.AddEvidence(u.Host.Root, more)
}

func (u *Unit) kernelLines(run quarantine.Run) (lines []string, unread string) {
	if !u.Host.Real() {
		return nil, "the log is this machine's, not CHARM_ROOT's"
	}
	var devices []string // with the ports above the GPUs
	for _, g := range run.GPUs {
		card, _, _ := strings.Cut(g.Name, "-") // a partition has the log of its GPU
		if !slices.Contains(devices, card) {
			dir, _ := u.Host.Root.Resolve("/sys/bus/pci/devices/" + card) // missing if the card left the bus
			devices = append(append(devices, card), pci.Ports(dir)...)
		}
	}
	end := u.Host.Now()
	if run.Ended != nil {
		end = run.Ended.Add(time.Minute)
	}
	lines, err := kernellog.Lines(run.Began.Add(-time.Second), end, devices)
	if err != nil {
		return nil, err.Error()
	}
	return lines, ""
}

// Evidence shows the last tasks with GPU faults, the newest first.
func (u *Unit) Evidence(w io.Writer, f term.Format) error {
	list, err := quarantine.ReadEvidence(u.Host.Root)
	switch {
	case errors.Is(err, statefile.ErrDamaged):
		return fmt.Errorf("%w; remove the file, it is begun again", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot read the faults of tasks: %s is readable by root only; run it with sudo",
			quarantine.EvidenceFile)
	case err != nil:
		return err
	}
	slices.Reverse(list)
	if f.JSON {
		if list == nil {
			list = []quarantine.Evidence{}
		}
		return term.JSON(w, list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintf(w, "no task of this %s had a GPU fault\n", u.place())
		return err
	}
	for i, e := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		showEvidence(w, e)
	}
	return nil
}

// holderName names a container or a run.
func holderName(name string) string {
	if rungroup.IsRun(name) {
		return name
	}
	return "container " + name
}

func showEvidence(w io.Writer, e quarantine.Evidence) {
	fmt.Fprintf(w, "%s from %s", holderName(e.Container), quarantine.FormatTime(e.Began))
	if e.Ended != nil {
		fmt.Fprintf(w, " to %s", quarantine.FormatTime(*e.Ended))
	}
	if e.Exit != nil {
		fmt.Fprintf(w, ", exit status %d", *e.Exit)
	}
	fmt.Fprintf(w, "\n  verdict: %s: %s\n", e.Verdict, e.Reason)
	for _, u := range e.GPUs {
		text := "nothing new"
		if len(u.NewFaults) > 0 {
			text = quarantine.DescribeFaults(u.NewFaults)
		}
		fmt.Fprintf(w, "  GPU %d (%s): %s\n", u.Index, u.Name, text)
		if u.MemoryBefore != nil && u.MemoryAfter != nil {
			fmt.Fprintf(w, "    memory in use: %s before, %s after\n", units.FormatGiB(*u.MemoryBefore),
				units.FormatGiB(*u.MemoryAfter))
		}
		if len(u.Before) > 0 {
			fmt.Fprintf(w, "    before: %s\n", quarantine.DescribeFaults(u.Before))
		}
	}
	for _, line := range e.Kernel {
		fmt.Fprintf(w, "  kernel: %s\n", line)
	}
	if e.Unread != "" {
		fmt.Fprintf(w, "  kernel's log: %s\n", e.Unread)
	}
}
