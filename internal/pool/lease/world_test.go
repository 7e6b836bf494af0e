package lease

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// world is a machine of plain files: processes below proc, cgroups below cgroup.
type world struct {
	t      testing.TB
	root   string
	v2     bool
	clock  time.Time
	tick   uint64
	procs  map[int]*proc
	groups map[string][]int // who is in each cgroup, by its path from the root
	pick   func(free []int) int
}

// proc is one process; group is the group of its container, "" for none.
type proc struct {
	start  uint64
	comm   string
	zombie bool
	group  string
	space  string // pid namespace, for good
}

func newWorld(t testing.TB, v2 bool) *world {
	w := &world{
		t: t, root: tempDir(t), v2: v2, clock: time.UnixMilli(1700000000000), tick: 1000,
		procs: map[int]*proc{}, groups: map[string][]int{},
		pick: func(free []int) int { return free[0] },
	}
	w.boot("boot-1")
	require.NoError(t, os.MkdirAll(w.path("proc/self/ns"), 0o700))
	require.NoError(t, os.Symlink("pid:[1]", w.path("proc/self/ns/pid")))
	return w
}

// tempDir is in memory if it can be, as the steps are many.
func tempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "lease")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (w *world) path(parts ...string) string {
	return filepath.Join(append([]string{w.root}, parts...)...)
}

func (w *world) put(path, text string) {
	err := os.WriteFile(path, []byte(text), 0o600)
	if os.IsNotExist(err) {
		require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	require.NoError(w.t, err)
}

func (w *world) boot(id string) { w.put(w.path("proc/sys/kernel/random/boot_id"), id+"\n") }

// leases are the leases of some GPUs of this machine.
func (w *world) leases(gpus ...string) Leases {
	return Leases{
		Dir: w.path("leases"), GPUs: gpus, Proc: w.path("proc"), Cgroup: w.path("cgroup"), Euid: uint32(os.Geteuid()),
		Now:    func() time.Time { return w.clock },
		nested: func(int) (bool, error) { return false, nil },
	}
}

// spawn starts a process, in a container's cgroup or, with "", outside of all.
func (w *world) spawn(group string) (pid int) {
	var free []int
	for pid := 100; pid < 140; pid++ {
		if w.procs[pid] == nil {
			free = append(free, pid)
		}
	}
	pid = w.pick(free)
	w.tick++
	w.procs[pid] = &proc{start: w.tick, comm: "a (b) c) R 1", space: "pid:[1]"}
	if parts := strings.Split(group, "/"); len(parts) > 1 {
		w.procs[pid].space = "pid:[" + parts[1] + "]"
	}
	require.NoError(w.t, os.MkdirAll(w.path("proc", strconv.Itoa(pid), "ns"), 0o700))
	require.NoError(w.t, os.Symlink(w.procs[pid].space, w.path("proc", strconv.Itoa(pid), "ns/pid")))
	w.status(pid)
	w.stat(pid)
	w.move(pid, group)
	return pid
}

// status has the numbers of a process: 1 has the first one of a pid namespace.
func (w *world) status(pid int) {
	text := "Name:\tx\nNSpid:\t" + strconv.Itoa(pid)
	if space := w.procs[pid].space; space != "pid:[1]" {
		inside := 0
		for _, p := range w.procs {
			if p.space == space {
				inside++
			}
		}
		text += "\t" + strconv.Itoa(inside)
	}
	w.put(w.path("proc", strconv.Itoa(pid), "status"), text+"\nThreads:\t1\n")
}

func (w *world) stat(pid int) {
	p, state := w.procs[pid], "S"
	if p.zombie {
		state = "Z"
	}
	zeros := strings.Repeat("0 ", 18)
	w.put(w.path("proc", strconv.Itoa(pid), "stat"), fmt.Sprintf("%d (%s) %s %s%d 1 2 3\n", pid, p.comm, state, zeros, p.start))
}

// fork starts a process as a child of another: in its cgroup and pid namespace.
func (w *world) fork(parent int) (pid int) {
	p := w.procs[parent]
	pid = w.spawn("")
	w.procs[pid].space = p.space
	link := w.path("proc", strconv.Itoa(pid), "ns/pid")
	require.NoError(w.t, os.Remove(link))
	require.NoError(w.t, os.Symlink(p.space, link))
	w.move(pid, p.group)
	return pid
}

// move puts a process into another cgroup, like "garden/c1" or "garden/c1/sub".
func (w *world) move(pid int, group string) {
	p := w.procs[pid]
	old := p.group
	if p.group = group; group == old && group != "" {
		return
	}
	if group != "" {
		w.groups[group] = append(w.groups[group], pid)
		w.listGroup(group)
	}
	w.leaveGroup(pid, old)
	text := "0::/" + group + "\n"
	if !w.v2 {
		text = fmt.Sprintf("9:name=systemd:/%s\n5:devices:/%s\n4:memory:/elsewhere\n8:pids:/%s\n0::/\n", group, group, group)
	}
	w.put(w.path("proc", strconv.Itoa(pid), "cgroup"), text)
}

func (w *world) leaveGroup(pid int, group string) {
	if group != "" {
		w.groups[group] = slices.DeleteFunc(w.groups[group], func(p int) bool { return p == pid })
		w.listGroup(group)
	}
}

func (w *world) groupDir(group string) string {
	if w.v2 {
		return w.path("cgroup", group)
	}
	return w.path("cgroup/devices", group)
}

func (w *world) listGroup(group string) {
	text := ""
	for _, pid := range w.groups[group] {
		text += strconv.Itoa(pid) + "\n"
	}
	w.put(w.groupDir(group)+"/cgroup.procs", text)
	if up := filepath.Dir(group); w.groups[up] == nil && strings.Contains(up, "/") {
		w.groups[up] = []int{}
		w.listGroup(up)
	}
}

// die makes a zombie, reap ends a process for good.
func (w *world) die(pid int) {
	p := w.procs[pid]
	p.zombie = true
	w.leaveGroup(pid, p.group)
	p.group = ""
	w.stat(pid)
}

func (w *world) reap(pid int) {
	w.leaveGroup(pid, w.procs[pid].group)
	delete(w.procs, pid)
	require.NoError(w.t, os.RemoveAll(w.path("proc", strconv.Itoa(pid))))
}

func (w *world) removeGroup(group string) {
	for g := range w.groups {
		if g == group || strings.HasPrefix(g, group+"/") {
			delete(w.groups, g)
		}
	}
	require.NoError(w.t, os.RemoveAll(w.groupDir(group)))
}

// call is runc's call for a container that is done by this process.
func (w *world) call(container string, pid int) Call {
	bundle := w.path("bundles", container)
	return Call{Container: container, Bundle: bundle, PidFile: bundle + "/init.pid", Cgroup: container, PID: pid}
}

// up makes a container with a finished create, and returns its init.
func (w *world) up(c Call) (init int) {
	init = w.spawn("garden/" + c.Container)
	w.put(c.PidFile, strconv.Itoa(init))
	w.reap(c.PID)
	return init
}
