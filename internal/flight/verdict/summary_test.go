package verdict_test

import (
	"context"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

const aRun = "run-4f1c0a2b91d3"

// reported writes the report of a recorder, with a run that ended in this way.
func reported(t *testing.T, at time.Time, c task) host.Root {
	root := host.Root(t.TempDir())
	require.NoError(t, root.MkdirAll(path.Dir(verdict.ReportPath), 0o755))
	r := c.record()
	r.Head.Handle, r.Head.Kind = aRun, lease.Run
	report := verdict.Report{At: at}
	report.Add(r, verdict.Decide(r))
	require.NoError(t, verdict.ReportFile(verdict.ReportPath).Write(root, report))
	return root
}

func TestSummaryOfARunHasItsVerdict(t *testing.T) {
	reset := []taskrecord.Event{{At: at(55), Kind: taskrecord.GPUReset, GPU: gpu0}}
	for name, c := range map[string]struct {
		task task
		why  string
	}{
		"a failure": {task{},
			"verdict run: the run itself failed with exit status 1 (exit-status). Look at its output."},
		"a fault of the GPU": {task{events: reset},
			"verdict gpu: GPU 0000:03:00.0 hung or was reset at 12:00:55 UTC (gpu-hang). Run it again. If it hangs on several " +
				"GPUs, its own kernel is the cause; the dump shows it. gpukit why run-4f1c0a2b91d3 shows 1 more sign."},
		"no exit status": {task{ending: taskrecord.NoStatus}, ""},
	} {
		s, err := verdict.WaitForSummary(t.Context(), reported(t, time.Now(), c.task), aRun)
		require.NoError(t, err, name)
		require.Equal(t, c.why, s.Why(), name)
	}
}

func TestSummaryIsNotWaitedForWithoutARecorder(t *testing.T) {
	for _, root := range []host.Root{host.Root(t.TempDir()), reported(t, time.Now().Add(-time.Hour), task{})} {
		_, err := verdict.WaitForSummary(context.Background(), root, "run-0")
		require.ErrorIs(t, err, verdict.ErrNoSummary)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := verdict.WaitForSummary(ended, reported(t, time.Now(), task{}), "run-0")
	require.ErrorIs(t, err, verdict.ErrNoSummary)
}
