package lease

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// proceed takes a runc call one step on: init, pid file and end of a create; the
// process and the end of an exec.
func (m *model) proceed() {
	for _, at := range m.r.Perm(len(m.containers)) {
		c := m.containers[at]
		if len(c.calls) == 0 || m.busyProcs() {
			continue
		}
		i := m.r.IntN(len(c.calls))
		call := c.calls[i]
		switch {
		case call.create && c.init == 0:
			c.init, c.noFile = m.spawn("garden/"+c.Container), true
		case call.create && c.noFile:
			m.put(c.PidFile, strconv.Itoa(c.init)+"\n"[:m.r.IntN(2)])
			c.noFile = false
		case !call.create && !call.done:
			group := "garden/" + c.Container
			if m.r.IntN(3) == 0 {
				group = fmt.Sprintf("%s/sub%d/deep", group, m.r.IntN(2))
			}
			c.tasks = append(c.tasks, m.spawn(group))
			call.done = true
		default:
			m.reap(call.pid)
			c.calls = slices.Delete(c.calls, i, i+1)
		}
		return
	}
}

// kill ends a runc call wherever it is.
func (m *model) kill() {
	c := m.some(calls)
	if c == nil {
		return
	}
	i := m.r.IntN(len(c.calls))
	call := c.calls[i]
	if call.create {
		c.broken = true
		m.note("create killed")
	} else {
		m.note("exec killed")
	}
	m.die(call.pid)
	m.check0(c, i)
	m.reap(call.pid)
}

// check0 drops a call that is a zombie now, and looks before it is reaped.
func (m *model) check0(c *container, i int) {
	c.calls = slices.Delete(c.calls, i, i+1)
	m.check()
}

// enter is an exec: the task's, another one, one that comes too late, or a person's into a
// container with an ended task.
func (m *model) enter() {
	c := m.some(anyOne)
	if c == nil || m.busyProcs() {
		return
	}
	seen := c.init != 0 && !c.noFile
	mayEnter := true
	for _, g := range c.gpus {
		if m.damaged[g] || m.owner[g] != c && m.held(g) && !m.unsure(g) {
			mayEnter = false
		}
	}
	held := m.check()
	for _, g := range c.gpus {
		if m.owner[g] != c && m.unsure(g) && held[g] {
			mayEnter = false
		}
	}
	call := c.Call
	call.PID = m.spawn("")
	o := m.mayDie(func(l Leases) outcome { return outcome{err: l.Enter(call, c.gpus)} })
	switch {
	case o.killed:
		m.note("call killed")
		m.reap(call.PID)
		if mayEnter && seen {
			c.torn = true
		}
	case !mayEnter:
		var r *Refusal
		require.ErrorAs(m.t, o.err, &r, "step %d", m.n)
		m.note("exec refused")
		m.reap(call.PID)
	case !seen:
		require.ErrorContains(m.t, o.err, "its first process has ended")
		m.reap(call.PID)
	case c.escaped && o.err != nil && strings.Contains(o.err.Error(), "its first process has ended"):
		m.reap(call.PID) // its record was another's since, and with it who its init is
	case len(c.calls) >= maxCalls:
		require.ErrorContains(m.t, o.err, "other calls of runc are in progress", "step %d", m.n)
		m.reap(call.PID)
	default:
		require.NoError(m.t, o.err, "step %d", m.n)
		if c.entered && !m.alive(c) {
			m.note("entered again")
		}
		m.note("entered")
		for _, g := range c.gpus {
			m.owner[g] = c
		}
		c.entered, c.torn = true, false
		c.calls = append(c.calls, &inside{pid: call.PID})
	}
}

func (m *model) endTask() {
	if c := m.some(m.reserved); c != nil && m.r.IntN(12) == 0 {
		m.clock = c.called.Add(time.Minute)
		m.note("created expired")
		return
	}
	c := m.some(hasTasks)
	if c == nil {
		return
	}
	i := m.r.IntN(len(c.tasks))
	m.reap(c.tasks[i])
	c.tasks = slices.Delete(c.tasks, i, i+1)
}

// forks leaves a process of a task in the background.
func (m *model) forks() {
	c := m.some(hasTasks)
	if c == nil || m.busyProcs() {
		return
	}
	i := m.r.IntN(len(c.tasks))
	parent := c.tasks[i]
	c.tasks[i] = m.fork(parent)
	m.reap(parent)
	m.note("task left others")
}

// moveInit is what a container does that runs containers itself.
func (m *model) moveInit() {
	c := m.some(anyOne)
	if c == nil || c.init == 0 {
		return
	}
	m.move(c.init, "garden/"+c.Container+"/init")
	m.note("moved")
}

// escapes is what a privileged task can do: it goes to another cgroup, with all.
func (m *model) escapes() {
	c := m.some(func(c *container) bool { return hasTasks(c) || c.OwnProcess && c.init != 0 && !c.noFile })
	if c == nil || m.r.IntN(2) == 0 {
		return
	}
	if c.OwnProcess {
		m.note("container escaped")
	}
	for _, pid := range append([]int{c.init}, c.tasks...) {
		m.move(pid, []string{"", "garden/elsewhere"}[m.r.IntN(2)])
	}
	c.escaped = true
	m.note("escaped")
}

func (m *model) delete() {
	c := m.some(anyOne)
	if c == nil {
		return
	}
	for _, pid := range c.tasks {
		m.reap(pid)
	}
	for _, call := range c.calls {
		m.reap(call.pid)
	}
	c.tasks, c.calls = nil, nil
	if c.init != 0 {
		m.die(c.init)
		init := c.init
		c.init = 0
		m.check() // a zombie is not a container
		m.reap(init)
	}
	m.removeGroup("garden/" + c.Container)
	if m.r.IntN(3) > 0 || c.OwnProcess { // see endContainer
		require.NoError(m.t, os.RemoveAll(c.Bundle))
	} // otherwise its pid file stays, and another process gets the number
	m.containers = slices.DeleteFunc(m.containers, func(o *container) bool { return o == c })
	m.note("deleted")
}

// unrelated starts or ends processes that have nothing to do with it.
func (m *model) unrelated() {
	var mine []int
	for pid, p := range m.procs {
		if p.comm == "other" {
			mine = append(mine, pid)
		}
	}
	slices.Sort(mine)
	if len(mine) > 3 {
		m.reap(mine[m.r.IntN(len(mine))])
		return
	}
	if !m.busyProcs() {
		m.procs[m.spawn("")].comm = "other"
	}
}

func (m *model) release() {
	g := m.r.IntN(len(m.owner))
	held := m.check()[g]
	was, err := m.l.Release(g, false)
	require.Equal(m.t, held, was.Held, "step %d", m.n)
	if held {
		require.ErrorContains(m.t, err, "cannot release GPU", "step %d", m.n)
	} else {
		require.NoError(m.t, err)
		if c := m.owner[g]; c != nil && m.unsure(g) {
			m.owner[g] = nil
		}
		m.note("released")
	}
	if m.damaged[g] {
		_, err := m.l.Release(g, true)
		require.NoError(m.t, err)
		m.damaged[g], m.owner[g] = false, nil
	}
}

// damage spoils the file of a GPU that no one has.
func (m *model) damage() {
	g := m.r.IntN(len(m.owner))
	if m.check()[g] || m.r.IntN(3) > 0 {
		return
	}
	m.put(m.l.path(m.l.GPUs[g]), []string{"x", "{}", `{"container":`, "null", "[]"}[m.r.IntN(5)])
	m.damaged[g], m.owner[g] = true, nil
	m.note("damaged")
}

func (m *model) reboot() {
	for pid := range m.procs {
		m.reap(pid)
	}
	for _, c := range m.containers {
		m.removeGroup("garden/" + c.Container)
	}
	for _, r := range m.runs {
		m.removeGroup("gpukit/" + r.ID)
	}
	m.containers, m.pods, m.claims, m.noKeeper, m.runs = nil, nil, nil, false, nil
	clear(m.owner)
	clear(m.kept)
	if m.boots++; m.boots%3 == 0 {
		require.NoError(m.t, os.RemoveAll(m.l.Dir))
		clear(m.damaged)
	}
	m.tick = 1000
	m.boot("boot-" + strconv.Itoa(m.boots+1)) // the world begins in boot-1
	m.note("rebooted")
}

// finish ends all, and then someone gets all GPUs.
func (m *model) finish() {
	m.reboot()
	for g := range m.damaged {
		_, err := m.l.Release(g, true)
		require.NoError(m.t, err)
	}
	clear(m.damaged)
	got, err := m.l.Take(m.call("last", m.spawn("")), Want{Count: len(m.owner)})
	require.NoError(m.t, err)
	require.Equal(m.t, []int{0, 1, 2, 3, 4}, got)
}
