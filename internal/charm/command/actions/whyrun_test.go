package actions

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// ended writes the record of a run.
func ended(t *testing.T, root host.Root, e taskrecord.End) taskrecord.Record {
	t.Helper()
	require.NoError(t, os.MkdirAll(root.Path(taskrecord.DefaultDir), 0o700))
	head := taskrecord.Head{Handle: "run-4f1c0a2b91d3", Kind: lease.Run, Title: "ada: pytest", Started: hosttest.Now,
		GPUs: []taskrecord.GPU{{Name: "0000:03:00.0"}}}
	w, err := taskrecord.Store{Dir: root.Path(taskrecord.DefaultDir)}.Begin(head)
	require.NoError(t, err)
	e.Ended = hosttest.Now.Add(time.Minute)
	require.NoError(t, w.End(e))
	return taskrecord.Record{Head: head, End: &e}
}

func TestWhyShowsARun(t *testing.T) {
	exit := 3
	for name, c := range map[string]struct {
		end  taskrecord.End
		want []string
	}{
		"that failed": {taskrecord.End{Ending: taskrecord.Exited, Exit: &exit},
			[]string{"run run-4f1c0a2b91d3 (ada: pytest) from ",
				", exit status 3\nverdict: run\n  because: the run itself failed with exit status 3 (exit-status)\n" +
					"    fix: Look at its output.\n"}},
		"without a status": {taskrecord.End{Ending: taskrecord.NoStatus}, []string{
			", exit status not known\nverdict: none, as no sign shows a failure\n"}},
		"that measured": {taskrecord.End{Ending: taskrecord.NoStatus, Clocks: &taskrecord.Clocks{Level: "profile_standard",
			Invalid: "it was throttled: ppt"}}, []string{
			"\nclocks of its GPUs: fixed (profile_standard), measurements not valid: it was throttled: ppt\n"}},
	} {
		root := hosttest.Root(t)
		ended(t, root, c.end)
		a := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, root)}}
		var text strings.Builder
		require.NoError(t, a.Why(t.Context(), &text, "run-4f1c", term.Format{}), name)
		for _, want := range c.want {
			require.Contains(t, text.String(), want, name)
		}
	}
}

// A run of a runner's job goes on when the hook after its steps asks.
func TestWhyShowsARunThatGoesOn(t *testing.T) {
	const gpu = "0000:03:00.0"
	root := hosttest.Root(t)
	require.NoError(t, os.MkdirAll(root.Path(taskrecord.DefaultDir), 0o700))
	w, err := taskrecord.Store{Dir: root.Path(taskrecord.DefaultDir)}.Begin(taskrecord.Head{Handle: "run-4f1c0a2b91d3",
		Kind: lease.Run, Started: hosttest.Now.Add(-time.Minute), GPUs: []taskrecord.GPU{{Name: gpu}}})
	require.NoError(t, err)
	show := func(user bool) string {
		a := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, root)}}
		var text strings.Builder
		if user {
			require.NoError(t, a.WhyForUser(t.Context(), &text, "run-4f1c0a2b91d3", term.Format{}))
		} else {
			require.NoError(t, a.Why(t.Context(), &text, "run-4f1c0a2b91d3", term.Format{}))
		}
		return text.String()
	}
	require.Contains(t, show(true),
		", running\nverdict so far, without an exit status: none, as no sign shows a failure\n")

	require.NoError(t, w.Event(taskrecord.Event{At: hosttest.Now, Kind: taskrecord.GPUReset, GPU: gpu}))
	require.NoError(t, w.Evidence(taskrecord.Evidence{Kernel: []taskrecord.Line{
		{At: hosttest.Now, GPU: gpu, Own: true, Text: "GPU reset succeeded"},
		{At: hosttest.Now, GPU: gpu, PID: 7, Text: "process secret"}}}))
	since := hosttest.Now
	require.NoError(t, quarantine.RecordFile.Write(root, quarantine.Record{GPUs: []quarantine.GPU{{
		Ref: quarantine.Ref{Name: gpu}, State: quarantine.Quarantined, Since: since, QuarantinedSince: &since,
		QuarantinedBy: quarantine.ByHealth}}}))
	for _, user := range []bool{true, false} {
		text := show(user)
		require.Contains(t, text,
			"verdict so far, without an exit status: gpu\n  because: GPU 0000:03:00.0 hung or was reset")
		require.Contains(t, text, "  GPU 0000:03:00.0 has been quarantined since ")
		require.Contains(t, text, "GPU reset succeeded\n")
		require.Equal(t, !user, strings.Contains(text, "secret"))
		require.Equal(t, user, strings.Contains(text, "kernel's log: run it with sudo to see lines about others\n"))
	}
}

// The client of a run that failed has its verdict before its record is complete.
func TestWhyShowsARunThatJustFailed(t *testing.T) {
	root, exit := hosttest.Root(t), 3
	older := ended(t, root, taskrecord.End{Ending: taskrecord.Exited, Exit: &exit})
	head := taskrecord.Head{Handle: "run-00c0ffee0001", Kind: lease.Run, Title: "ada: train", Started: hosttest.Now.Add(-time.Minute)}
	_, err := taskrecord.Store{Dir: root.Path(taskrecord.DefaultDir)}.Begin(head)
	require.NoError(t, err)
	var report verdict.Report
	for _, r := range []taskrecord.Record{older, {Head: head, End: &taskrecord.End{Ended: hosttest.Now, Ending: taskrecord.Exited, Exit: &exit}}} {
		report.Add(&r, verdict.Decide(&r))
	}
	require.NoError(t, os.MkdirAll(root.Path("/run/concourse-ci-machine"), 0o755))
	require.NoError(t, verdict.ReportFile(verdict.ReportPath).Write(root, report))
	a := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, root)}}
	for _, which := range []string{"", "run-00c0"} {
		var text strings.Builder
		require.NoError(t, a.Why(t.Context(), &text, which, term.Format{}))
		require.Contains(t, text.String(), "run run-00c0ffee0001 (ada: train) from ")
		require.Contains(t, text.String(), ", exit status 3\nverdict: run\nits record is not complete yet: run this again in half a minute\n")
		require.Contains(t, text.String(), "exit status 3 (exit-status)\n")
	}
}

// A user cannot read the records, but the report of the last failures.
func TestWhyWithoutRootShowsTheLastFailures(t *testing.T) {
	exit, root := 3, hosttest.Root(t)
	r := ended(t, root, taskrecord.End{Ending: taskrecord.Exited, Exit: &exit})
	a := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, root)}}
	var text strings.Builder
	require.ErrorContains(t, a.whyWithoutRoot(&text, "", term.Format{}), "run it with sudo")
	report := verdict.Report{At: hosttest.Now}
	require.NoError(t, os.MkdirAll(root.Path("/run/concourse-ci-machine"), 0o755))
	require.NoError(t, verdict.ReportFile(verdict.ReportPath).Write(root, report))
	require.NoError(t, a.whyWithoutRoot(&text, "", term.Format{}))
	require.Equal(t, taskrecord.ErrNoneFailed.Error()+"\n", text.String())
	report.Add(&r, verdict.Decide(&r))
	require.NoError(t, verdict.ReportFile(verdict.ReportPath).Write(root, report))
	for _, which := range []string{"", "run-4f1c"} {
		text.Reset()
		require.NoError(t, a.whyWithoutRoot(&text, which, term.Format{}))
		require.Contains(t, text.String(), "run run-4f1c0a2b91d3 (ada: pytest) from ")
		require.Contains(t, text.String(), "verdict: run\n")
		require.Contains(t, text.String(), "kernel's log: run it with sudo to see its lines\n")
	}
	require.ErrorContains(t, a.whyWithoutRoot(&text, "4f1c", term.Format{}),
		`cannot find a failure "4f1c" among the last 1`)
}
