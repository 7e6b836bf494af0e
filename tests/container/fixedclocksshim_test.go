//go:build e2e

package container

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chained is a container that measures, made as a worker makes it: the caller asks
// containerd, which starts a shim, and that calls the wrapper.
type chained struct {
	*promised
	bed *bed
	id  string
	ctr func(words ...string) (string, error)
}

func newChained(t *testing.T) *chained {
	w := newMeasured(t)
	c := &chained{promised: w, bed: w.measures(settings[0])}
	c.id = c.bed.id + "-measures"
	t.Cleanup(c.endsAll) // also if the test fails
	init := c.bed.path("bundle/rootfs/tmp/gdn-init")
	require.NoError(t, os.WriteFile(init, []byte("#!/bin/busybox sh\nexec /bin/busybox sleep 600\n"), 0o755))
	return c
}

// calls starts a command of the caller, which this container's processes are known by.
func (c *chained) calls(words ...string) *exec.Cmd {
	c.t.Helper()
	cmd := exec.Command("ctr", append([]string{"--address", c.bed.path("containerd.sock"), "--namespace", "concourse"}, words...)...)
	require.NoError(c.t, cmd.Start())
	go cmd.Wait() // it is killed, or ends with the container
	return cmd
}

func (c *chained) creates() *exec.Cmd {
	return c.calls("run", "--detach", "--rootfs", "--env", "GPU_FIXED_CLOCKS=1", "--env", "GPU_COUNT=2",
		"--mount", "type=bind,src="+c.bed.path("volume")+",dst=/tmp/build/0badcafe,options=rbind:rw", c.bed.path("bundle/rootfs"), c.id, "/tmp/gdn-init")
}

func (c *chained) runs() *exec.Cmd {
	return c.calls("tasks", "exec", "--exec-id", "task", c.id, "/bin/busybox", "sh", "-c", "while busybox sleep 600; do :; done")
}

// pids are the pids of processes that these words are in the command line of, or in the
// control group.
func (c *chained) pids(words ...string) (pids []int) {
	c.t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(c.t, err)
	for _, dir := range dirs {
		line, _ := os.ReadFile(dir + "/cmdline") // who no longer exists has none
		group, _ := os.ReadFile(dir + "/cgroup")
		all := len(line) > 0
		for _, word := range words {
			all = all && strings.Contains(string(line)+string(group), word)
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); all && err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill9 ends them, of which there are some.
func (c *chained) kill9(words ...string) {
	c.t.Helper()
	pids := c.pids(words...)
	require.NotEmpty(c.t, pids, words)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // who no longer exists needs none
	}
}

// Whoever of them is killed, while it creates, before the task comes and while that runs:
// the clocks are fixed for as long as the container has processes, and the GPU's own then.
func TestClocksAreGivenBackWhoeverOfAWorkerIsKilled(t *testing.T) {
	steps := map[string]func(c *chained) (caller *exec.Cmd){
		"it creates": func(c *chained) *exec.Cmd {
			goOn := c.fifo("runc-" + c.bed.id)
			path := c.bed.path("runc")
			text := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *' create '*) echo reached >%s/events/all; read word <%s;; esac\nexec %s \"$@\"\n", c.dir, goOn.Name(), c.bed.real)
			require.NoError(c.t, os.WriteFile(path, []byte(text), 0o755))
			c.replaceRunc(c.bed, path)
			caller := c.creates()
			c.reached()
			return caller
		},
		"the container waits": func(c *chained) *exec.Cmd {
			caller := c.creates()
			c.exists()
			return caller
		},
		"the task runs": func(c *chained) *exec.Cmd {
			c.creates()
			c.exists()
			caller := c.runs()
			require.Eventually(c.t, func() bool { return len(c.pids(c.id, "while busybox sleep")) > 1 }, 20*time.Second, 20*time.Millisecond)
			return caller
		},
	}
	for victim, kill := range map[string]func(c *chained, caller *exec.Cmd){
		"the shim":   func(c *chained, _ *exec.Cmd) { c.kill9("containerd-shim", c.id) },
		"the caller": func(_ *chained, caller *exec.Cmd) { _ = caller.Process.Kill() }, // one that came to its end needs none
		"the worker": func(c *chained, _ *exec.Cmd) { c.kill9("containerd\x00--config", c.bed.path("config.toml")) },
	} {
		for step, reach := range steps {
			t.Run(victim+" while "+step, func(t *testing.T) {
				c := newChained(t)
				c.ctr = c.bed.containerd()
				caller := reach(c)
				c.staysFixed()
				kill(c, caller)
				switch {
				case step == "it creates": // whoever lost its caller may be ended with it
					c.endsAll()
				case victim != "the shim": // containerd ends its container
					c.staysFixed()
					c.endsAll()
				}
				c.givesBack()
				c.sees()
				require.Equal(t, own, c.levels())
			})
		}
	}
}

func (c *chained) exists() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		out, err := c.ctr("tasks", "list")
		return err == nil && strings.Contains(out, c.id) && strings.Contains(out, "RUNNING")
	}, 20*time.Second, 20*time.Millisecond)
}

// endsAll is the end of the container, of what creates it and of its shim.
func (c *chained) endsAll() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		pids := c.pids(c.id)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(pids) == 0
	}, 20*time.Second, 20*time.Millisecond)
}
