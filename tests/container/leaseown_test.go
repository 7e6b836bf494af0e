//go:build e2e

package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// own is a container of another engine, and its first process is its work.
func (u *unit) own(s setting) *bed {
	u.t.Helper()
	b := u.container(s, "AMD_VISIBLE_DEVICES=0")
	b.init, b.kind = "", "get"
	u.engine(b)
	return b
}

// engine lends a bed as container-engines has it.
func (u *unit) engine(b *bed) {
	u.lend(b)
	b.unit.Containers = oci.Requested
	b.configure(b.unit)
}

func (u *unit) isHeldByContainer(b *bed) {
	u.t.Helper()
	require.Contains(u.t, u.refusal(), " is held by container "+b.id+" of another engine since ")
}

// running is one that runs, and has the only GPU.
func (u *unit) running(s setting) *bed {
	u.t.Helper()
	b := u.own(s)
	b.bundle()
	require.NoError(u.t, b.up())
	u.isHeldByContainer(b)
	return b
}

// Whatever is killed, wherever it is: until then no other program has the GPU, and after it
// a task has it.
func TestGPUIsFreeAfterAContainerOfAnEngine(t *testing.T) {
	untilStarted((*unit).own, (*unit).engine, (*unit).isHeldByContainer).freeAfter(t)
	kills{
		"runc that starts it": func(u *unit, s setting) {
			b := u.own(s)
			b.bundle()
			require.NoError(u.t, b.begin(b.createWords()...).Wait())
			path, _ := u.script(b, "runc", "")
			b.real = path
			u.engine(b)
			c := b.begin("start", b.id)
			u.reached()
			b.stop(c)
			u.isHeldByContainer(b)
			u.useRunc(b)
			b.kill9("init.pid")
		},
		"its first process": func(u *unit, s setting) { u.running(s).kill9("init.pid") },
		"it is deleted":     func(u *unit, s setting) { u.running(s).delete() },
		"it leaves its cgroup, and its files are gone": func(u *unit, s setting) {
			b := u.running(s)
			pid, err := os.ReadFile(b.path("init.pid"))
			require.NoError(u.t, err)
			for _, pattern := range []string{"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/*/cgroup.procs"} {
				files, err := filepath.Glob(pattern)
				require.NoError(u.t, err)
				for _, file := range files {
					require.NoError(u.t, os.WriteFile(file, pid, 0))
				}
			}
			require.NoError(u.t, os.Rename(b.path("init.pid"), b.path("moved")))
			in, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cgroup")
			require.NoError(u.t, err)
			require.NotContains(u.t, string(in), ":devices:/"+dirOfTests)
			u.isHeldByContainer(b)
			b.kill9("moved")
		},
		"what came by exec has ended before": func(u *unit, s setting) {
			b := u.running(s)
			u.fifo(b.id)
			require.NoError(u.t, b.run(task))
			require.Equal(u.t, []string{"+", b.id, "128"}, u.event())
			b.kill9("exec.pid")
			u.isHeldByContainer(b)
			b.kill9("init.pid")
		},
		"it was made again under its name": func(u *unit, s setting) {
			b := u.running(s)
			b.delete()
			b.bundle()
			require.NoError(u.t, b.up())
			u.isHeldByContainer(b)
			b.kill9("init.pid")
		},
	}.freeAfter(t)
}

// However it comes by it. The other way round is above: who asks there is a task.
func TestContainerGetsNoGPUThatATaskHas(t *testing.T) {
	u := newUnit(t, 1)
	task := u.busy(settings[1])
	for name, change := range map[string]func(b *bed){
		"by the variable": func(*bed) {},
		"by its device": func(b *bed) {
			b.env = nil
			var st syscall.Stat_t
			require.NoError(t, syscall.Stat("/dev/dri/renderD128", &st))
			b.put = []any{map[string]any{"path": "/dev/a", "type": "c", "major": st.Rdev >> 8 & 0xfff, "minor": st.Rdev & 0xff}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := u.own(settings[0])
			change(b)
			b.bundle()
			require.Error(t, b.up())
			require.Contains(t, b.logged(), fmt.Sprintf("is held by the task of container %s since ", task.id))
		})
	}
}
