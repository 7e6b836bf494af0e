package builds

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/testreport"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// logged returns the event of a text that a task prints.
func logged(id, text string) string {
	data, _ := json.Marshal(text)
	return fmt.Sprintf(`event: event
data: {"event":"log","data":{"origin":{"id":%q,"source":"stdout"},"payload":%s}}

`, id, data)
}

func TestLinesOfResultsAreBounded(t *testing.T) {
	empty := testreport.Report{}.Line() + "\n"
	l := newEventLog(steps{"c": "unit", "d": "other"})
	text := logged("c", strings.Repeat(empty, (1<<19)/len(empty)))
	require.NoError(t, readEvents(strings.NewReader(text+text+logged("d", empty)+"event: end\ndata\n\n"), l.add))
	require.Equal(t, maxResults+1, l.parsed)
	require.NotNil(t, l.tasks["d"].results, "other tasks keep theirs")
	l = newEventLog(steps{})
	for n := range maxTasks {
		id := fmt.Sprint(n)
		l.steps[id] = id
		l.print(&task{lines: map[string]*line{}}, "stdout", strings.Repeat(empty, maxResults))
	}
	require.Equal(t, maxAllResults, l.parsed)
}

// Tasks choose the names of their tests and print results for each step. Only the bounded
// memory of runs stays, also of lists that several runs shared.
func TestMemoryOfRunsIsBounded(t *testing.T) {
	now := hosttest.Now
	c := New(Options{PerMinute: 60, Now: func() time.Time { return now }})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for id := 1; id <= 100; id++ { // 128 MB of lists
		var all []flake.Run
		for n := range uint32(40) {
			r := &testreport.Report{Passed: make([]uint32, 8000)}
			for i := range r.Passed {
				r.Passed[i] = uint32(i) * (n + 1)
			}
			all = append(all, flake.Run{Key: flake.Key{Step: fmt.Sprint(id, n)}, Tests: r})
		}
		c.builds[id] = &build{answer: answer{ID: id}}
		require.NoError(t, c.keep(c.builds[id], all))
	}
	require.Less(t, heap()-before, uint64(maxMemory*3/2))
	require.NotEmpty(t, c.builds[100].tasks, "the newest stay")
	require.Empty(t, c.builds[1].tasks)
	first := c.builds[100].tasks[0]
	for id := 101; id <= 2000; id++ {
		one, tests := first, *first.Tests
		tests.Passed = slices.Clone(tests.Passed)
		one.Tests = &tests
		c.builds[id] = &build{answer: answer{ID: id}}
		require.NoError(t, c.keep(c.builds[id], []flake.Run{one}))
	}
	require.Less(t, heap()-before, uint64(maxMemory*3/2))
	require.NotEmpty(t, c.builds[101].tasks, "equal lists are counted once")
	runtime.KeepAlive(c)
}

// The results of one build are not kept in place of all others.
func TestBuildWithTooManyResultsIsLeftOut(t *testing.T) {
	c := New(Options{PerMinute: 60, Now: func() time.Time { return hosttest.Now }})
	for id := 1; id <= 3; id++ {
		c.builds[id] = &build{answer: answer{ID: id}}
	}
	require.NoError(t, c.keep(c.builds[1], []flake.Run{{Key: flake.Key{Step: "unit"}}}))
	large := flake.Run{Tests: &testreport.Report{Passed: make([]uint32, maxMemory/4)}}
	require.ErrorIs(t, c.keep(c.builds[3], []flake.Run{large}), errTooLong)
	require.NoError(t, c.keep(c.builds[2], []flake.Run{{Key: flake.Key{Step: "unit"}}}))
	require.Len(t, c.Runs(), 2)
}
