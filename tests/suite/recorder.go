package suite

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
)

// Recorder returns the recorder of a fixture host, which gets the processes and control groups of
// this machine. kernel plays the kernel's log: one record for each Read.
func Recorder(t *testing.T, root host.Root, kernel io.Reader) *recorder.Recorder {
	t.Helper()
	require.NoError(t, os.RemoveAll(root.Path("/proc")))
	require.NoError(t, os.RemoveAll(root.Path("/sys/fs")))
	require.NoError(t, os.MkdirAll(root.Path("/sys/fs"), 0o755))
	for _, dir := range []string{"/proc", "/sys/fs/cgroup"} {
		require.NoError(t, os.Symlink(dir, root.Path(dir)))
	}
	require.NoError(t, os.MkdirAll(root.Path(wellknown.RunDir), 0o755))
	rec, err := recorder.New(recorder.Options{Root: root, Report: verdict.ReportPath,
		Kernel: kernellog.Of(kernel, time.Now()),
		Limits: taskrecord.Limits{Bytes: 64 << 20, Age: time.Hour, FailedAge: time.Hour},
		Every:  500 * time.Millisecond, GPUs: 100 * time.Millisecond, Log: t.Logf})
	require.NoError(t, err)
	return rec
}

// Record looks again and again until the test ends.
func Record(t *testing.T, rec *recorder.Recorder) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, rec.Look(ctx)) // a client does not wait for a recorder without a report
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := rec.Look(ctx); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
}
