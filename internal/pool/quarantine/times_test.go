package quarantine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// looks decides for a GPU beside a healthy one at these times after the start.
func looks(r Record, letter byte, at ...time.Duration) Record {
	for _, d := range at {
		a, _ := sign(0, letter)
		b, _ := sign(1, '.')
		r = Decide(r, Look{At: start.Add(d), Policy: Auto, GPUs: []Reading{a, b}})
	}
	return r
}

func stateOf(r Record) State { return r.Find(names[0]).State }

// every returns a time each half minute, and the last one.
func every(from, to time.Duration) (at []time.Duration) {
	for d := from; d < to; d += 30 * time.Second {
		at = append(at, d)
	}
	return append(at, to)
}

func TestLowScoreMustLastFiveMinutes(t *testing.T) {
	for last, want := range map[time.Duration]State{5*time.Minute - 1: InService, 5 * time.Minute: Quarantined} {
		require.Equal(t, want, stateOf(looks(Record{}, 'c', every(0, last)...)), last)
	}
}

// Looks more than a minute apart saw nothing between them.
func TestTimeBetweenDistantLooksIsNotCounted(t *testing.T) {
	for gap, want := range map[time.Duration]State{time.Minute: Quarantined, time.Minute + 1: InService} {
		r := looks(Record{}, 'c', every(0, 4*time.Minute)...)
		require.Equal(t, want, stateOf(looks(r, 'c', 4*time.Minute+gap)), gap)

		r = looks(looks(Record{}, 'h', 0), '.', every(time.Second, time.Second+4*time.Minute)...)
		r = looks(r, '.', time.Second+4*time.Minute+gap)
		returned := map[State]State{Quarantined: InService, InService: OnProbation}[want]
		require.Equal(t, returned, stateOf(r), gap)
	}
}

// A clock that is set back by an hour must not delay a decision by an hour.
func TestClockThatIsSetBackStartsTimesAgain(t *testing.T) {
	back := every(-time.Hour, -55*time.Minute)
	r := looks(Record{}, 'c', every(0, 4*time.Minute)...)
	require.Equal(t, Quarantined, stateOf(looks(r, 'c', back...)))
	require.Equal(t, InService, stateOf(looks(r, 'c', back[:len(back)-1]...)))

	r = looks(looks(Record{}, 'h', 0), '.', every(time.Second, 4*time.Minute)...)
	require.Equal(t, InService, stateOf(looks(r, '.', back...)))
	require.Equal(t, OnProbation, stateOf(looks(r, '.', back[:len(back)-1]...)))
}

// Each strike within a day doubles the probation. After the fifth only an operator returns
// the GPU.
func TestProbationDoublesWithEachStrike(t *testing.T) {
	r, at := Record{}, time.Duration(0)
	for _, minutes := range []time.Duration{5, 10, 20, 40} {
		r = looks(r, 'h', at)
		require.Equal(t, Quarantined, stateOf(r))
		from := at + 15*time.Second
		r = looks(r, '.', every(from, from+minutes*time.Minute-1)...)
		require.Equal(t, OnProbation, stateOf(r), minutes)
		at = from + minutes*time.Minute
		r = looks(r, '.', at)
		require.Equal(t, InService, stateOf(r), minutes)
		at += 15 * time.Second
	}
	require.False(t, r.Find(names[0]).ManualReturn)
	r = looks(looks(r, 'h', at), '.', every(at, at+2*time.Hour)...)
	require.Equal(t, Quarantined, stateOf(r))
	require.True(t, r.Find(names[0]).ManualReturn)
}

func TestStrikeIsForgottenAfterADay(t *testing.T) {
	const day = 24 * time.Hour
	for later, want := range map[time.Duration]State{day - 1: OnProbation, day: InService} {
		r := looks(looks(Record{}, 'h', 0), '.', every(time.Second, time.Second+5*time.Minute)...)
		require.Equal(t, InService, stateOf(r))
		r = looks(looks(r, 'h', later), '.', every(later+time.Second, later+time.Second+5*time.Minute)...)
		require.Equal(t, want, stateOf(r), later)
	}
}

// used returns GPU 0 with so much memory in use, by a task or without one.
func used(r Record, at time.Duration, total, used float64, task ...string) Record {
	a, _ := sign(0, '.')
	b, _ := sign(1, '.')
	a.Memory, a.Total = &used, &total
	l := Look{At: start.Add(at), Policy: Auto, GPUs: []Reading{a, b}}
	for _, name := range task {
		l.Tasks = append(l.Tasks, Task{Container: name, GPUs: names[:1]})
	}
	return Decide(r, l)
}

// A GPU may keep a hundredth of its memory after a task, and at least 64 MiB.
func TestMemoryThatATaskLeavesIsALeakAfterAMinute(t *testing.T) {
	const idle, small, large = 100 << 20, 4 << 30, 64 << 30
	for name, c := range map[string]struct {
		total, left float64
		after       time.Duration
		want        State
	}{
		"a large GPU's slack":      {large, idle + large/100, time.Minute, InService},
		"more than its slack":      {large, idle + large/100 + 1, time.Minute, Quarantined},
		"for less than a minute":   {large, idle + large/100 + 1, time.Minute - 1, InService},
		"a small GPU's slack":      {small, idle + 64<<20, time.Minute, InService},
		"more than a small slack":  {small, idle + 64<<20 + 1, time.Minute, Quarantined},
		"less than while it began": {small, idle - 1, time.Minute, InService},
	} {
		r := used(Record{}, 0, c.total, idle)
		r = used(r, 15*time.Second, c.total, 3<<30, "a-task")
		r = used(r, 30*time.Second, c.total, c.left)
		r = used(r, 30*time.Second+c.after, c.total, c.left)
		require.Equal(t, c.want, stateOf(r), name)
	}
}

// Small changes of the idle level are not written to the file.
func TestIdleLevelFollowsAQuarterOfTheSlack(t *testing.T) {
	const total, quarter = 4 << 30, 16 << 20
	for level, want := range map[float64]float64{
		100<<20 + quarter: 100 << 20, 100<<20 + quarter + 1: 100<<20 + quarter + 1,
		100<<20 - quarter: 100 << 20, 100<<20 - quarter - 1: 100<<20 - quarter - 1,
	} {
		r := used(used(Record{}, 0, total, 100<<20), 15*time.Second, total, level)
		require.InDelta(t, want, *r.Find(names[0]).Idle, 0, "%.0f", level)
		limit, known := r.Find(names[0]).MaxIdleMemory()
		require.True(t, known)
		require.Equal(t, uint64(want)+64<<20, limit)
	}
}

// Hardware counters come up to a reading and a look later, so a task is blamed for half a
// minute after its end.
func TestRunLingersForHalfAMinute(t *testing.T) {
	for after, want := range map[time.Duration]int{30*time.Second - 1: 1, 30 * time.Second: 0} {
		r := used(Record{}, 0, 1<<30, 0, "a-task")
		r = used(r, 15*time.Second, 1<<30, 0)
		require.Len(t, r.Runs, 1)
		require.Len(t, used(r, 15*time.Second+after, 1<<30, 0).Runs, want, after)
	}
}

// A look that can't see the tasks ends none: their GPUs' new faults are still theirs.
func TestUnknownTasksDoNotEnd(t *testing.T) {
	r := used(Record{}, 0, 1<<30, 0, "a-task")
	a, _ := sign(0, '.')
	b, _ := sign(1, '.')
	l := Look{At: start.Add(15 * time.Second), Policy: Auto, GPUs: []Reading{a, b}, TasksUnknown: true}
	require.Nil(t, Decide(r, l).Runs[0].Ended)
	l.TasksUnknown = false
	require.Equal(t, l.At, *Decide(r, l).Runs[0].Ended)
}

func TestFaultOfARunHasItsTime(t *testing.T) {
	at := start.Add(time.Minute)
	run := Run{Began: start}
	require.Equal(t, at, run.FaultTime(Use{FaultAt: &at}))
	require.Equal(t, start, run.FaultTime(Use{}))
}

// Ends of a program count for a week. A GPU keeps 24 programs, and of each the last 20 ends.
func TestOldProgramsAreForgotten(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for age, want := range map[time.Duration]int{week: 1, week + 1: 0, -week: 1, -week - 1: 0} {
		g := GPU{Programs: []ProgramEnds{{Program: "old", Last: start.Add(-age)}}}
		g.takeProgram("new", start)
		require.Len(t, g.Programs, want, age)
	}
	var g GPU
	for i := range 30 {
		p := g.takeProgram(string(rune('A'+i)), start)
		p.Last = start
		g.Programs = append(g.Programs, p)
	}
	require.Len(t, g.Programs, 24)
	require.Equal(t, "G", g.Programs[0].Program)
	m := &machine{t: t, at: start}
	for range 25 {
		m.run("..", 0, "program", "team", 0)
	}
	require.Len(t, m.r.Find(names[0]).Programs[0].Ends, 20)
}
