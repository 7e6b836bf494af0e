package recorder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
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
