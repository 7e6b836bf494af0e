package recorder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
)

// A recorder that starts finds old containers. Those without a process of a task ended before.
func TestOnlyYoungContainersWaitForTheirTask(t *testing.T) {
	for _, c := range []struct {
		age      time.Duration
		recorded bool
	}{{0, true}, {9 * time.Second, true}, {10 * time.Second, true}, {11 * time.Second, false}} {
		w := newWorld(t)
		w.task(handle).neverStarts()
		w.now = w.now.Add(c.age)
		w.start()
		require.NoError(t, w.rec.Look(t.Context()))
		require.Equal(t, c.recorded, taskrecord.Store{Dir: w.root.Path(taskrecord.DefaultDir)}.Open(handle), c.age)
	}
}

// A watchdog ends the recorder if it is silent, also while it reads hundreds of records.
func TestRecorderIsAliveWhileItReadsItsRecords(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{handle, neighbour} {
		w.task(name).ends(1)
	}
	w.run(40 * time.Second)
	alive := 0
	o := recorder.Options{Root: w.root, Kernel: kernellog.Of(&w.log, start), Alive: func() error { alive++; return nil }}
	_, err := recorder.New(o)
	require.NoError(t, err)
	require.Equal(t, 2, alive)
}
