//go:build e2e

package container

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// launch starts a bundled container and its task, again and again while it finds
// too few GPUs free, and waits for neither. That it failed is an event, too.
func (u *unit) launch(b *bed) (failed <-chan error) {
	u.t.Helper()
	p := process(0, task)
	p["env"] = []string{"PATH=/bin", "TASK=" + b.id}
	b.write("process", p)
	said := make(chan error, 1)
	go func() {
		err := b.up()
		for err != nil && strings.Contains(err.Error(), "runc-amd-wrapper: cannot lease ") {
			time.Sleep(50 * time.Millisecond)
			err = b.up()
		}
		if err == nil {
			err = b.runExec()
		}
		if err != nil {
			fmt.Fprintln(u.events, "!", err)
		}
		said <- err
	}()
	return said
}

// Sixteen tasks at once of which twelve must come again: no two ever have the same GPU
// open, four of them run as long as there are four, and all come to their end. Containers
// of ended tasks stay, as Concourse's do.
func TestSixteenTasksAtOnceShareFourGPUsOneByOne(t *testing.T) {
	u := newUnit(t, 4)
	const tasks = 16
	var failed []<-chan error
	goOn := map[string]*os.File{}
	for i := range tasks {
		b := u.container(settings[i%3])
		b.bundle()
		goOn[b.id] = u.fifo(b.id)
		failed = append(failed, u.launch(b))
	}
	holds := map[string]string{} // task by GPU
	for running, left := 0, tasks; left > 0; {
		if running == min(u.gpus, left) { // as many as can be: one must end for the next
			gpus := slices.Sorted(maps.Keys(holds))
			_, err := goOn[holds[gpus[left%len(gpus)]]].WriteString("\n")
			require.NoError(t, err)
		}
		switch e := u.event(); e[0] {
		case "+":
			require.Len(t, e, 3, "one GPU: %v", e)
			require.NotContains(t, holds, e[2], "held twice, by %s too", e[1])
			holds[e[2]] = e[1]
			running++
		case "-":
			maps.DeleteFunc(holds, func(_, task string) bool { return task == e[1] })
			running--
			left--
		default:
			t.Fatal(e)
		}
	}
	for _, task := range failed {
		require.NoError(t, <-task)
	}
	_, counters, err := u.leases().Read()
	require.NoError(t, err)
	require.EqualValues(t, tasks, counters.Granted)
	require.GreaterOrEqual(t, counters.Busy, uint64(tasks-u.gpus))
	require.Zero(t, counters.Impossible)
}

// Tasks of one to three GPUs that end when they like.
func TestTasksOfSeveralGPUsNeverShareOne(t *testing.T) {
	u := newUnit(t, 4)
	wants := []string{"3", "1", "2", "all", "2", "1", "3", "1", "2"}
	for i, count := range wants {
		b := u.container(settings[i%3], "GPU_COUNT="+count)
		b.bundle()
		_, err := u.fifo(b.id).WriteString("\n")
		require.NoError(t, err)
		u.launch(b)
	}
	holds, got := map[string]string{}, []string{}
	for ended := 0; ended < len(wants); {
		switch e := u.event(); e[0] {
		case "+":
			for _, gpu := range e[2:] {
				require.NotContains(t, holds, gpu, "held twice, by %s too", e[1])
				holds[gpu] = e[1]
			}
			got = append(got, strconv.Itoa(len(e)-2))
		case "-":
			maps.DeleteFunc(holds, func(_, task string) bool { return task == e[1] })
			ended++
		default:
			t.Fatal(e)
		}
	}
	wants[3] = "4"
	require.ElementsMatch(t, wants, got)
}
