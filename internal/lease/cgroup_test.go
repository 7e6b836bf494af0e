package lease

import (
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
			dirs, within := Leases{Cgroup: "/cg"}.groupsOf(c.text, c.container)
			require.Equal(t, c.within, within)
			require.Equal(t, c.want, dirs)
		})
	}
}

// busy is a container with GPU a whose task runs; it returns its parts.
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

func TestLeaseLivesWhileSomebodyIsInTheContainer(t *testing.T) {
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
				states, _, _, err := l.Read()
				require.NoError(t, err)
				require.Equal(t, c.held, states[0].Held)
				require.Equal(t, "c1", states[0].Container)
				require.Equal(t, c.doubt, states[0].Doubt)
			})
		}
	}
}

func TestLeaseIsHeldWhereNobodyCanLook(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, w *world, c Call, init int)
		doubt  string
	}{
		{"no cgroup directory", func(_ *testing.T, w *world, c Call, _ int) { w.removeGroup("garden/c1") }, "cannot find the cgroup of process"},
		{"a cgroup without init", func(_ *testing.T, w *world, c Call, _ int) { w.put(w.groupDir("garden/c1")+"/cgroup.procs", "") }, "its init, is not"},
		{"a pid file of words", func(_ *testing.T, w *world, c Call, _ int) { w.put(c.PidFile, "many") }, "cannot read"},
		{"a pid file with 0", func(_ *testing.T, w *world, c Call, _ int) { w.put(c.PidFile, "0") }, "it holds no process id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, true)
			l := w.leases("a")
			call, init, _ := busy(t, w, l)
			c.change(t, w, call, init)
			states, _, _, err := l.Read()
			require.NoError(t, err)
			require.True(t, states[0].Held)
			require.Contains(t, states[0].Doubt, c.doubt)
			_, err = l.Take(w.call("c2", w.spawn("")), Want{Count: 1})
			require.ErrorContains(t, err, c.doubt)
			w.reap(init)
			if c.doubt == "cannot read" || c.doubt == "it holds no process id" {
				return
			}
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
	states, _, _, err := l.Read()
	require.NoError(t, err)
	require.Equal(t, State{GPU: "a", Container: call.Container, Since: w.clock}, states[0])
	got, err := l.Take(w.call("c2", w.spawn("")), Want{Count: 1})
	require.NoError(t, err)
	require.Equal(t, []int{0}, got)
}
