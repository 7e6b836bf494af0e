package lease

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGroupsOf(t *testing.T) {
	for _, c := range []struct {
		name, text, container string
		within                bool
		want                  []string
	}{
		{"v2", "0::/garden/c1\n", "c1", true, []string{"/cg/garden/c1", "/cg/unified/garden/c1"}},
		{"v2, init moved below", "0::/garden/c1/init\n", "c1", true, []string{"/cg/garden/c1", "/cg/unified/garden/c1"}},
		{"systemd's name", "0::/system.slice/runc-c1.scope/x\n", "c1", true, []string{"/cg/system.slice/runc-c1.scope", "/cg/unified/system.slice/runc-c1.scope"}},
		{"v1 prefers devices", "3:pids:/g/c1\n7:cpu,devices:/g/c1\n1:name=systemd:/\n0::/\n", "c1", true, []string{"/cg/cpu,devices/g/c1", "/cg/devices/g/c1", "/cg/pids/g/c1", "/cg/pids/g/c1"}},
		{"v1 where devices is not delegated", "3:pids:/g/c1\n7:devices:/\n", "c1", true, []string{"/cg/pids/g/c1", "/cg/pids/g/c1"}},
		{"only in memory: within, and can't be looked at", "3:memory:/g/c1\n", "c1", true, nil},
		{"another container", "0::/garden/c2\n", "c1", false, nil},
		{"one whose name begins with it", "0::/garden/c12\n", "c1", false, nil},
		{"one whose name ends with it", "0::/garden/cc1/c1\n", "c1", true, []string{"/cg/garden/cc1/c1", "/cg/unified/garden/cc1/c1"}},
		{"outside of what is seen", "0::/../garden/c1\n", "c1", true, nil},
		{"no name", "0::/garden/c1\n", "", false, nil},
		{"nothing", "", "c1", false, nil},
		{"no lines", "garbage", "c1", false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dirs, within := Leases{Cgroup: "/cg"}.containerGroups(c.text, c.container)
			require.Equal(t, c.within, within)
			require.Equal(t, c.want, dirs)
		})
	}
}

// busy is a container with GPU a with a task that runs; it returns its parts.
func busy(t *testing.T, w *world, l Leases) (c Call, init, task int) {
	c = w.call("c1", w.spawn(""))
	got, err := l.Take(c, Want{Count: 1})
	require.NoError(t, err)
	init = w.up(c)
	exec := w.call("c1", w.spawn(""))
	require.NoError(t, l.Enter(exec, got))
	task = w.spawn("garden/c1")
	w.reap(exec.PID)
	return c, init, task
}

func TestLeaseIsLiveWhileAProcessIsInTheContainer(t *testing.T) {
	both := map[string]bool{"v1": false, "v2": true}
	for _, c := range []struct {
		name   string
		change func(w *world, init, task int)
		held   bool
		doubt  string
	}{
		{"the task runs", func(*world, int, int) {}, true, ""},
		{"it has ended, init stays", func(w *world, _, task int) { w.reap(task) }, false, ""},
		{"it is in a cgroup below", func(w *world, _, task int) { w.move(task, "garden/c1/a/b") }, true, ""},
		{"it left somebody below", func(w *world, _, task int) { w.spawn("garden/c1/a/b"); w.reap(task) }, true, ""},
		{"init is in a cgroup beside it", func(w *world, init, _ int) { w.move(init, "garden/c1/init") }, true, ""},
		{"init is alone in a cgroup below", func(w *world, init, task int) { w.move(init, "garden/c1/init"); w.reap(task) }, false, ""},
		{"the task left the cgroup", func(w *world, _, task int) { w.move(task, "") }, true, ""},
		{"init and the task left the cgroup", func(w *world, init, task int) { w.move(init, ""); w.move(task, "garden/c9") }, true, ""},
		{"init left the cgroup, and the task has ended", func(w *world, init, task int) { w.move(init, ""); w.reap(task) }, false, ""},
		{"the task is a zombie outside of the cgroup", func(w *world, _, task int) { w.die(task) }, false, ""},
		{"init's number is the init's of another container", func(w *world, init, task int) {
			w.reap(task)
			w.reap(init)
			w.pick = func(free []int) int { return init }
			w.spawn("garden/c9")
			w.pick = func(free []int) int { return free[0] }
			w.spawn("garden/c9")
		}, false, ""},
		{"init is a zombie", func(w *world, init, _ int) { w.die(init) }, false, ""},
		{"init is gone", func(w *world, init, _ int) { w.reap(init) }, false, ""},
		{"init's number is another's", func(w *world, init, task int) {
			w.reap(task)
			w.reap(init)
			w.pick = func(free []int) int { return init }
			w.spawn("garden/c9")
		}, false, ""},
	} {
		for layout, v2 := range both {
			t.Run(c.name+", "+layout, func(t *testing.T) {
				w := newWorld(t, v2)
				l := w.leases("a")
				_, init, task := busy(t, w, l)
				c.change(w, init, task)
				states, _, err := l.Read()
				require.NoError(t, err)
				require.Equal(t, c.held, states[0].Held)
				require.Equal(t, "c1", states[0].Container)
				require.Equal(t, c.doubt, states[0].Doubt)
			})
		}
	}
}

func TestUnverifiableLeaseIsHeld(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, w *world, c Call, init, task int)
		doubt  string
	}{
		{"no namespace of its own", func(t *testing.T, w *world, _ Call, init, task int) {
			w.move(task, "")
			require.NoError(t, os.Remove(w.path("proc/self/ns/pid")))
			require.NoError(t, os.Symlink(w.procs[init].space, w.path("proc/self/ns/pid")))
		}, "has no separate pid namespace"},
		{"namespaces that can't be read", func(t *testing.T, w *world, _ Call, _, task int) {
			w.move(task, "")
			require.NoError(t, os.Remove(w.path("proc", strconv.Itoa(task), "ns/pid")))
			w.put(w.path("proc", strconv.Itoa(task), "ns/pid"), "")
		}, "cannot see the pid namespace of process"},
		{"processes that are gone at each look", func(t *testing.T, w *world, _ Call, _, task int) {
			w.move(task, "")
			require.NoError(t, os.RemoveAll(w.path("proc", strconv.Itoa(task), "ns")))
		}, "processes come and go too fast"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, true)
			l := w.leases("a")
			call, init, task := busy(t, w, l)
			c.change(t, w, call, init, task)
			states, _, err := l.Read()
			require.NoError(t, err)
			require.True(t, states[0].Held)
			require.Contains(t, states[0].Doubt, c.doubt)
			_, err = l.Take(w.call("c2", w.spawn("")), Want{Count: 1})
			require.ErrorContains(t, err, c.doubt)
			w.reap(init)
			_, err = l.Take(w.call("c3", w.spawn("")), Want{Count: 1})
			require.NoError(t, err, "init is gone, and so is the doubt")
		})
	}
}

// After a reboot the same process ids and start times can come again.
func TestRebootEndsAllLeases(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	call, _, _ := busy(t, w, l)
	w.boot("boot-2")
	states, _, err := l.Read()
	require.NoError(t, err)
	require.Equal(t, State{GPU: "a", Kind: Task, Container: call.Container, Since: w.clock}, states[0])
	got, err := l.Take(w.call("c2", w.spawn("")), Want{Count: 1})
	require.NoError(t, err)
	require.Equal(t, []int{0}, got)
}

// Before its first exec a container is known by its pid file.
func TestInvalidPidFileKeepsTheLease(t *testing.T) {
	for text, doubt := range map[string]string{"many": "cannot read", "0": "it holds no process id"} {
		w := newWorld(t, true)
		l := w.leases("a")
		c := w.call("c1", w.spawn(""))
		_, err := l.Take(c, Want{Count: 1})
		require.NoError(t, err)
		w.up(c)
		w.put(c.PidFile, text)
		states, _, err := l.Read()
		require.NoError(t, err)
		require.True(t, states[0].Held)
		require.Contains(t, states[0].Doubt, doubt)
	}
}
