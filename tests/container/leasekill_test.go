//go:build e2e

package container

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// begin starts the wrapper and does not wait for it.
func (b *bed) begin(words ...string) *exec.Cmd {
	b.t.Helper()
	out, err := os.Create(b.path("begun"))
	require.NoError(b.t, err)
	defer out.Close()
	c := exec.Command(b.wrapper(),
		append([]string{"--root", b.path("root/concourse"), "--log", b.path("bundle/log.json"), "--log-format", "json"}, words...)...)
	c.Dir, c.Stdout, c.Stderr = b.path("bundle"), out, out
	c.Env = append(os.Environ(), oci.EnvConfig+"="+b.path("wrapper.json"))
	require.NoError(b.t, c.Start())
	return c
}

// stop ends a process that begin started, as the out-of-memory killer would.
func (b *bed) stop(c *exec.Cmd) {
	b.t.Helper()
	require.NoError(b.t, c.Process.Kill())
	require.Error(b.t, c.Wait())
}

// script writes a program that reports that it was reached, waits for a word and goes on.
func (u *unit) script(b *bed, name, then string) (path string, goOn *os.File) {
	u.t.Helper()
	goOn = u.fifo(name + "-" + b.id)
	path = b.path(name)
	text := fmt.Sprintf("#!/bin/sh\necho reached > %s/events/all\nread word < %s\n%s\n", u.dir, goOn.Name(), then)
	require.NoError(u.t, os.WriteFile(path, []byte(text), 0o755))
	return path, goOn
}

func (u *unit) reached() {
	u.t.Helper()
	require.Equal(u.t, []string{"reached"}, u.event())
}

// busy makes a container with a task that runs and holds the only GPU.
func (u *unit) busy(s setting) *bed {
	u.t.Helper()
	b := u.container(s)
	b.bundle()
	require.NoError(u.t, b.up())
	u.fifo(b.id)
	require.NoError(u.t, b.run(task))
	require.Equal(u.t, []string{"+", b.id, "128"}, u.event())
	u.isHeldBy(b)
	return b
}

// kills end something of a container on a unit of one GPU.
type kills map[string]func(u *unit, s setting)

// freeAfter is that the GPU is free after each, and the next task has it.
func (all kills) freeAfter(t *testing.T) {
	for name, kill := range all {
		for _, s := range settings[:2] {
			t.Run(name+", "+s.name, func(t *testing.T) {
				u := newUnit(t, 1)
				kill(u, s)
				u.isFree()
				u.isFreeFor(s)
			})
		}
	}
}

// untilStarted are the kills before a container runs, whoever made it: until then no other
// program has the GPU.
func untilStarted(made func(*unit, setting) *bed, lend, isHeld func(*unit, *bed)) kills {
	return kills{
		"runc before it did anything": func(u *unit, s setting) {
			b := made(u, s)
			path, _ := u.script(b, "runc", "exec "+b.real+` "$@"`)
			b.real = path
			lend(u, b)
			b.bundle()
			c := b.begin(b.createWords()...)
			u.reached()
			isHeld(u, b)
			b.stop(c)
			u.useRunc(b)
		},
		"runc while it creates": func(u *unit, s setting) {
			b := made(u, s)
			path, goOn := u.script(b, "hook", "")
			b.hook = path
			b.bundle()
			c := b.begin(b.createWords()...)
			u.reached()
			isHeld(u, b)
			b.stop(c)
			_, err := goOn.WriteString("\n")
			require.NoError(u.t, err)
			b.dropCgroups()
		},
		"its first process before the start": func(u *unit, s setting) {
			b := made(u, s)
			b.bundle()
			require.NoError(u.t, b.begin(b.createWords()...).Wait())
			isHeld(u, b)
			b.kill9("init.pid")
		},
	}
}

// Whatever is killed, wherever it is: until then no other program has the GPU, and after it
// the next one has it.
func TestGPUIsFreeAfterAnyKill(t *testing.T) {
	untilStarted(func(u *unit, s setting) *bed { return u.container(s) }, (*unit).lend, (*unit).isHeldBy).freeAfter(t)
	kills{
		"container before its task came": func(u *unit, s setting) {
			b := u.container(s)
			b.bundle()
			require.NoError(u.t, b.up())
			u.isHeldBy(b)
			b.delete()
		},
		"runc before it runs the task": func(u *unit, s setting) {
			b := u.container(s)
			b.bundle()
			require.NoError(u.t, b.up())
			path, _ := u.script(b, "runc", "exec "+b.real+` "$@"`)
			b.real = path
			u.lend(b)
			b.write("process", process(0, task))
			c := b.begin("exec", "--process", b.path("process"), b.id)
			u.reached()
			u.isHeldBy(b)
			b.stop(c)
			u.useRunc(b)
		},
		"task": func(u *unit, s setting) {
			u.busy(s).kill9("exec.pid")
		},
		"init below the task": func(u *unit, s setting) {
			u.busy(s).kill9("init.pid")
		},
		"container below the task": func(u *unit, s setting) {
			u.busy(s).delete()
		},
	}.freeAfter(t)
}

// dropCgroups removes what a killed runc leaves and no other knows of. It waits
// for the process that was to become the container's init to end.
func (b *bed) dropCgroups() {
	b.t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		left, err := filepath.Glob(pattern + dirOfTests + b.id)
		require.NoError(b.t, err)
		for _, dir := range left {
			require.Eventually(b.t, func() bool { return os.Remove(dir) == nil }, 20*time.Second, 5*time.Millisecond, dir)
		}
	}
}

// useRunc puts the real runc back, which deletes the container at the end.
func (u *unit) useRunc(b *bed) {
	debian, err := exec.LookPath("runc")
	require.NoError(u.t, err)
	b.real = debian
	u.lend(b)
}

// isFreeFor runs a whole task, to its end.
func (u *unit) isFreeFor(s setting) {
	u.t.Helper()
	u.ended(s)
	u.isFree()
}

// A limit of file sizes ends the wrapper at each of its writes: the record of the
// lease, the marker, config.json.
func TestWrapperThatDiesAtAWriteLeavesTheGPUFree(t *testing.T) {
	u := newUnit(t, 1)
	ends := 0
	for _, limit := range []int{0, 100, 1000, 1 << 11, 2100, 1 << 12, 1 << 20} {
		b := u.container(settings[1])
		b.env = []string{fmt.Sprintf("LONG=%03000d", 0)} // config.json is the longest of them
		b.real = u.nothing()
		u.lend(b)
		b.bundle()
		c := exec.Command("prlimit", append([]string{"--fsize=" + strconv.Itoa(limit), b.wrapper(), "--root", b.path("root/concourse")}, b.createWords()...)...)
		c.Env = append(os.Environ(), oci.EnvConfig+"="+b.path("wrapper.json"))
		if err := c.Run(); err != nil {
			ends++
		}
		require.Empty(t, u.refusal(), "limit %d", limit)
		u.useRunc(b)
	}
	require.Greater(t, ends, 2)
	require.Less(t, ends, 7)
}

// Wherever in its milliseconds: what it leased is free again.
func TestWrapperKilledAtAnyMomentLosesNoGPU(t *testing.T) {
	u := newUnit(t, 1)
	b := u.container(settings[1])
	path, _ := u.script(b, "runc", "")
	b.real = path
	u.lend(b)
	b.bundle()
	for range 60 {
		b.write("bundle/config.json", b.config())
		c := b.begin(b.createWords()...)
		for range rand.IntN(5000) { // some of the time that it takes
			_, err := os.Stat(b.dir)
			require.NoError(t, err)
		}
		b.stop(c)
		require.Empty(t, u.refusal())
	}
	u.useRunc(b)
}
