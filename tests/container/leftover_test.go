//go:build e2e

package container

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// begins runs a script as the task's own process, as Concourse does: by an exec with a pid
// that is in the bundle.
func (b *bed) begins(script string) {
	b.t.Helper()
	p := process(b.uid, script)
	p["env"] = append([]string{"PATH=/bin", "TASK=" + b.id}, b.env...)
	b.write("process", p)
	b.execs("task.pid")
}

func (b *bed) execs(pidFile string) {
	b.t.Helper()
	out, err := os.Create(b.path("out"))
	require.NoError(b.t, err)
	defer out.Close()
	err = b.runc(out, "exec", "--process", b.path("process"), "--detach", "--pid-file", b.path("bundle/"+pidFile), b.id)
	said, _ := os.ReadFile(b.path("out"))
	require.NoError(b.t, err, string(said))
}

// Processes that an ended task left behind are ended by looks of some seconds, and no other
// process is: not the task's own, not a session of fly intercept, not the first one.
func TestWhatAnEndedTaskLeftIsEndedAndItsContainerStays(t *testing.T) {
	for _, s := range settings[:2] {
		t.Run(s.name, func(t *testing.T) {
			u := newUnit(t, 1)
			b := u.container(s)
			b.bundle()
			require.NoError(t, b.up())
			word := u.fifo(b.id)
			now := time.Now()
			look := func() []lease.Remnant {
				t.Helper()
				l := u.leases()
				now = now.Add(6 * time.Second)
				l.Now = func() time.Time { return now }
				done, err := l.EndRemaining(l.Signal)
				assert.NoError(t, err)
				return done
			}
			const leaves = `(trap '' TERM; exec busybox setsid busybox sh -c "echo left > /events/all; exec busybox sleep 600") <&- >&- 2>&- &
(exec busybox setsid busybox sleep 600) <&- >&- 2>&- &
`
			b.begins(leaves + "read word < /events/$TASK\n")
			require.Equal(t, []string{"left"}, u.event())
			for range 3 {
				require.Empty(t, look(), "the task runs")
			}
			require.NotContains(t, u.refusal(), lease.RunAgain)
			b.write("process", process(b.uid, "read word < /events/"+b.id+"\n"))
			b.execs("1f0c.pid") // fly intercept

			b.kill9("bundle/task.pid")
			require.Eventually(t, func() bool { states, _, err := u.leases().Read(); return err == nil && states[0].TaskEnded }, time.Minute, time.Millisecond)
			for range 3 {
				require.Empty(t, look(), "somebody is in the container")
			}
			states, _, err := u.leases().Read()
			require.NoError(t, err)
			require.Equal(t, "the ended task of container "+b.id, states[0].Holder())

			_, err = word.WriteString("\n") // the session ends
			require.NoError(t, err)
			ends := make(chan []lease.Remnant)
			go func() {
				var all []lease.Remnant
				for len(all) == 0 || all[len(all)-1].Signal != unix.SIGKILL {
					all = append(all, look()...)
				}
				ends <- all
			}()
			require.Empty(t, u.refusal(), "the next task waits until the GPU is free")
			done := <-ends
			require.Equal(t, lease.Remnant{Container: b.id, GPUs: []string{"GPU-0"}, Processes: 2, Signal: unix.SIGTERM}, done[0])
			u.isFree()

			b.begins("echo again > /events/all\n")
			require.Equal(t, []string{"again"}, u.event(), "the container runs on")
		})
	}
}
