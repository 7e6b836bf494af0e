package verdict_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

func TestReportHasTheLastTasksWithDetailsOfTheLastFailures(t *testing.T) {
	var r verdict.Report
	for i := range verdict.MaxEntries + 5 {
		record := task{seconds: 1}.record()
		record.Head.Handle = fmt.Sprint("task-", i)
		if i%2 == 0 {
			*record.End.Exit = 0
		}
		v := verdict.Decide(record)
		r.Add(record, v)
		r.Count(v)
	}
	require.Len(t, r.Entries, verdict.MaxEntries)
	require.Equal(t, "task-204", r.Entries[0].Handle, "the newest is first")
	require.Equal(t, "task-5", r.Entries[verdict.MaxEntries-1].Handle)
	require.Len(t, r.Details, 20)
	require.Equal(t, "task-203", r.Details[0].Handle)
	require.Equal(t, uint64(103), r.Counts[verdict.Succeeded])
	require.Equal(t, uint64(102), r.Counts[string(verdict.Task)])
	require.Contains(t, r.Counts, string(verdict.GPU), "a series begins at 0")
}

func TestTaskThatIsAddedAgainHasOneEntry(t *testing.T) {
	var r verdict.Report
	record := task{seconds: 1}.record()
	r.Add(record, verdict.Decide(record))
	require.Len(t, r.Details, 1)
	require.Equal(t, verdict.Task, r.Entries[0].Kind)
	require.Equal(t, []string{gpu0}, r.Entries[0].GPUs)
	*record.End.Exit = 0
	r.Add(record, verdict.Decide(record))
	require.Len(t, r.Entries, 1)
	require.Empty(t, r.Entries[0].Kind)
	require.Empty(t, r.Details)
	require.Zero(t, r.Counts[verdict.Succeeded], "Add does not count")
}

func TestReportIsReadAsItWasWritten(t *testing.T) {
	var r verdict.Report
	record := task{}.record()
	v := verdict.Decide(record)
	r.Add(record, v)
	r.Count(v)
	root := host.Root(t.TempDir())
	require.NoError(t, verdict.ReportFile("/report.json").Write(root, r))
	got, err := verdict.ReportFile("/report.json").Read(root)
	require.NoError(t, err)
	require.Equal(t, r.Entries, got.Entries)
	require.Equal(t, r.Counts, got.Counts)
	require.Equal(t, r.Details[0].Reasons, got.Details[0].Reasons)
}
