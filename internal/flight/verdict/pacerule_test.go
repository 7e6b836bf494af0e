package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// A task of 300 s with all of a CPU and 90 % of a GPU is held against two runs of its program.
func TestStoppedTaskIsHeldAgainstTheLastRunsOfItsProgram(t *testing.T) {
	for name, c := range map[string]struct {
		earlier taskrecord.Pace
		exit    int
		code    string
		kind    verdict.Kind
		text    string
	}{
		"as long as usual": {taskrecord.Pace{Seconds: 310, CPU: 310, GPU: 279}, 143, "stopped-busy", verdict.Task,
			"the task was stopped after 300 s (abort or timeout), and it worked to the end; its last 2 good runs took 310 s at most, " +
				"and it worked at their pace"},
		"slower": {taskrecord.Pace{Seconds: 250, CPU: 750, GPU: 225}, 143, "stopped-busy", verdict.Task,
			"the task was stopped after 300 s (abort or timeout), and it worked to the end; its last 2 good runs took 250 s at most, " +
				"and it had 33 % of their CPU time a second"},
		"five times as long at its usual pace": {taskrecord.Pace{Seconds: 60, CPU: 60, GPU: 54}, 143, "stopped-slow", verdict.Unknown,
			"the task was stopped after 300 s while it worked; its last 2 good runs took 60 s at most, and it worked at their pace"},
		"five times as long at half of the GPU time": {taskrecord.Pace{Seconds: 60, CPU: 60, GPU: 110, Joules: 18_000}, 124, "stopped-slow",
			verdict.Unknown, "the task was stopped after 300 s while it worked; its last 2 good runs took 60 s at most, and it had " +
				"49 % of their GPU time a second"},
		"a test that fails": {taskrecord.Pace{Seconds: 60, CPU: 60}, 1, "exit-status", verdict.Task,
			"the task itself failed with exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := task{seconds: 300, exit: c.exit}.record()
			r.End.Earlier = []taskrecord.Pace{c.earlier}
			require.NotContains(t, verdict.Decide(r).Reasons[0].Text, "good runs", "one run is no pace")
			r.End.Earlier = append(r.End.Earlier, c.earlier)
			v := verdict.Decide(r)
			require.Equal(t, c.code, v.Reasons[0].Code)
			require.Equal(t, c.kind, v.Kind)
			require.Equal(t, c.text, v.Reasons[0].Text)
		})
	}
}
