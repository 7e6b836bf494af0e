// Package guest boots throwaway machines for tests and the demo: a Debian with systemd as its
// process 1 in separate mount, network, process, IPC, UTS and cgroup namespaces. The GPUs of
// a fixture host are sysfs files over the kernel's own, and nodes of other devices of this
// kernel. Use it in a process namespace: its end ends all machines. It never changes this
// machine's files, network or services.
package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Path is systemd's PATH of services.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const (
	bootTime = 2 * time.Minute
	pause    = 50 * time.Millisecond
)

// Guest describes one machine. The calls come in this order: MakeRoot, Boot, Kill, Unmount.
type Guest struct {
	Dir     string    // its folder, on a disk
	Root    host.Root // below Dir: at first the files of a fixture host, after MakeRoot its root
	Lower   string    // an unpacked debian.Base, below its root
	Groups  string    // folder of control groups, from MakeGroups
	Address string    // in the network of MakeNetwork
	Shared  []string  // folders of this machine that it has at the same path, beside Dir
	Shifted bool      // in a user namespace, like a container of LXD
	Log     io.Writer // gets the output of its start; nil drops it

	process *exec.Cmd
	mounts  []string
}

// Fake returns the files of the fixture host that a kernel would show, after MakeRoot.
func (g *Guest) Fake() host.Root { return host.Root(filepath.Join(g.Dir, "fake")) }

// PID returns the id of process 1 in this process namespace.
func (g *Guest) PID() int { return g.process.Process.Pid }

// Boot starts the machine, connects it to the network and waits until all services are
// started.
func (g *Guest) Boot(ctx context.Context) error {
	if err := g.start(); err != nil {
		return fmt.Errorf("cannot start a machine: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	for {
		out, _ := g.Run("systemctl is-system-running") // fails until systemd answers
		if out == "running" || out == "degraded" {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot start a machine: systemd reports %q: %w", out, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
	failed, err := g.Run("systemctl --failed --no-legend")
	if err != nil || failed != "" {
		return fmt.Errorf("cannot start a machine: failed units: %s (%v)", failed, err)
	}
	return nil
}

// start starts process 1 and gives it its interface.
func (g *Guest) start() error {
	g.process = exec.Command("/proc/self/exe")
	g.process.Env = append(os.Environ(), processEnv+"=1")
	g.process.Stdout, g.process.Stderr = g.Log, g.Log
	in, err := g.process.StdinPipe()
	if err != nil {
		return err
	}
	attr := &syscall.SysProcAttr{}
	if g.Shifted {
		attr = userNamespace()
	}
	attr.Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC |
		syscall.CLONE_NEWUTS
	group := filepath.Join(g.Groups, filepath.Base(g.Dir))
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	if g.Shifted {
		if err := chown(group); err != nil {
			return err
		}
	}
	fd, err := os.Open(group)
	if err != nil {
		return err
	}
	defer fd.Close()
	attr.UseCgroupFD, attr.CgroupFD = true, int(fd.Fd())
	g.process.SysProcAttr = attr
	if err := g.process.Start(); err != nil {
		return err
	}
	veth, pid := fmt.Sprintf("veth%d", g.PID()), fmt.Sprint(g.PID())
	if err := errors.Join(
		Command("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", pid),
		Command("ip", "link", "set", veth, "master", bridge, "up")); err != nil {
		return err
	}
	return json.NewEncoder(in).Encode(process{Root: string(g.Root), Fake: string(g.Fake()), Address: g.Address})
}

// Kill ends all processes of the machine.
func (g *Guest) Kill() {
	if g.process == nil || g.process.Process == nil {
		return
	}
	g.process.Process.Kill()
	g.process.Wait()
}

// Reboot ends all processes of the machine, and starts it again.
func (g *Guest) Reboot(ctx context.Context) error {
	g.Kill()
	if err := removeGroups(filepath.Join(g.Groups, filepath.Base(g.Dir))); err != nil {
		return fmt.Errorf("cannot restart a machine: %w", err)
	}
	return g.Boot(ctx)
}

// Enter returns the command line that runs a program in the machine, with these variables.
func (g *Guest) Enter(env []string, argv ...string) []string {
	in := []string{"nsenter", "--target", fmt.Sprint(g.PID()), "--mount", "--uts", "--ipc", "--net", "--pid",
		"--cgroup"}
	if g.Shifted {
		in = append(in, "--user")
	}
	return slices.Concat(in, []string{"--", "/usr/bin/env", "-"}, env, argv)
}

// Run runs a shell line in the machine, and returns its output without the last newline.
func (g *Guest) Run(line string) (string, error) {
	argv := g.Enter([]string{"PATH=" + Path}, "/bin/sh", "-c", line)
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Command runs a program of this machine. Its error has the output.
func Command(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", argv, err, out)
	}
	return nil
}
