package recorder_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A clock that NTP sets back must not stop the writing until it has caught up: a loss of power
// would lose all readings.
func TestReadingsReachTheDiskWithTheClockSetBack(t *testing.T) {
	w := newWorld(t)
	c := w.task(handle, gpu1)
	w.run(60 * time.Second)
	before := len(w.open(handle).Machine)
	w.now = w.now.Add(-2 * time.Minute)
	w.run(60 * time.Second)
	require.GreaterOrEqual(t, len(w.open(handle).Machine), before+5)
	c.ends(1)
	w.run(time.Second)
	w.now = w.now.Add(-2 * time.Minute)
	w.run(20 * time.Second)
	_, v := w.verdict(handle)
	require.NotEmpty(t, v.Kind, "the task ends although its end is in the future")
}

// The kernel gives the number of an ended process to another one.
func TestNumberOfAnEndedProcessIsNotTheTasks(t *testing.T) {
	w := newWorld(t)
	first, second := w.task(handle), w.task(neighbour)
	const number = 4321
	procs := func(c *task, pids ...int) {
		text := fmt.Sprintln(c.pid) + fmt.Sprintln(c.own)
		for _, pid := range pids {
			text += fmt.Sprintln(pid)
		}
		c.put("/sys/fs/cgroup/garden/"+c.handle+"/cgroup.procs", text)
	}
	crash := func() (lines [2]int) {
		w.say(fmt.Sprintf("python3[%d]: segfault at 0 ip 0 sp 0 error 4 in b[1000+1000]", number))
		w.run(time.Second)
		first.ends(1)
		second.ends(1)
		w.run(40 * time.Second)
		for i, name := range []string{handle, neighbour} {
			r, _ := w.verdict(name)
			lines[i] = len(r.End.Evidence.Kernel)
		}
		return lines
	}
	for range 3 {
		procs(first, number)
		w.run(time.Second)
	}
	for range 3 {
		procs(first)
		procs(second, number)
		w.run(time.Second)
	}
	require.Equal(t, [2]int{0, 1}, crash(), "the second task has the number now")
}

func TestNumberIsForgotten(t *testing.T) {
	for _, slow := range []time.Duration{0, 28 * time.Second} { // between two looks
		w := newWorld(t)
		c := w.task(handle)
		w.run(time.Second) // the next second writes no files
		c.put("/sys/fs/cgroup/garden/"+handle+"/cgroup.procs", "1000\n1001\n4321\n")
		w.run(time.Second)
		c.put("/sys/fs/cgroup/garden/"+handle+"/cgroup.procs", "1000\n1001\n")
		w.now = w.now.Add(slow)
		w.run(30*time.Second - slow)
		w.say("nginx[4321]: segfault at 0 ip 0 sp 0 error 4 in b[1000+1000]")
		w.run(time.Second)
		c.ends(1)
		w.run(40 * time.Second)
		r, _ := w.verdict(handle)
		require.Empty(t, r.End.Evidence.Kernel, "a program of the machine crashed")
	}
}
