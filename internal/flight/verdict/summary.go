package verdict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
)

// Summary describes a run that ended, for its user. All users can read it.
type Summary struct {
	Entry
	Reasons []Reason // none of a run that succeeded
}

const (
	// SummaryTime is the longest wait for a summary: the recorder looks each second.
	SummaryTime = 4 * time.Second
	summaryStep = 50 * time.Millisecond
	// silent is the age of a report of a recorder that does not run.
	silent = 2 * time.Minute
)

// ErrNoSummary reports that the recorder has no record of a run, or does not run.
var ErrNoSummary = errors.New("the recorder of runs has not reported it")

// WaitForSummary returns the summary of a run that just ended, by its id. It waits for the
// recorder, at most SummaryTime, and then returns ErrNoSummary. The kernel's last lines and
// quarantine can still change the verdict for half a minute; see gpukit why.
func WaitForSummary(ctx context.Context, root host.Root, id string) (Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, SummaryTime)
	defer cancel()
	for {
		report, err := ReportFile(ReportPath).Read(root)
		if err != nil {
			return Summary{}, err
		}
		if s, ok := report.Find(id); ok {
			return s, nil
		}
		if time.Since(report.At) > silent {
			return Summary{}, ErrNoSummary
		}
		select {
		case <-ctx.Done():
			return Summary{}, ErrNoSummary
		case <-time.After(summaryStep):
		}
	}
}

// Find returns the summary of a task, run or container that ended.
func (r *Report) Find(id string) (s Summary, ok bool) {
	at := slices.IndexFunc(r.Entries, func(e Entry) bool { return e.Handle == id })
	if at < 0 {
		return s, false
	}
	s.Entry = r.Entries[at]
	for _, d := range r.Details {
		if d.Handle == id {
			s.Reasons = d.Reasons
		}
	}
	return s, true
}

// Why returns the verdict in one paragraph, "" for a run without a failure.
func (s Summary) Why() string {
	if s.Kind == "" || len(s.Reasons) == 0 {
		return ""
	}
	first := s.Reasons[0]
	text := fmt.Sprintf("verdict %s: %s (%s). %s", s.Kind, first.Text, first.Code, first.Fix)
	if more := len(s.Reasons) - 1; more > 0 {
		text += fmt.Sprintf(" gpukit why %s shows %s.", s.Handle, units.Count(more, "more sign"))
	}
	return text
}
