package demo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"concourse-ci-machine/internal/sandbox"
)

// taskChild is the argument that starts this program in the namespace of the
// task container's machine.
const taskChild = "task-in-own-namespace"

// task runs a container as Concourse makes one through the wrapper that the
// charm installed, where this machine can.
func (d *demo) task() error {
	render, kfd, why := standInNodes()
	if why != "" {
		d.left = append(d.left, "a task container through the wrapper: "+why)
		return nil
	}
	w, err := d.taskUnit(render, kfd)
	if err != nil {
		return err
	}
	defer w.Close()
	d.title("a task container through the installed wrapper and this machine's runc")
	d.say("Devices of this kernel that need no GPU stand in: %s as /dev/dri/renderD128,", render)
	d.say("%s as /dev/kfd; unprivileged, in a user namespace as Concourse makes it.", kfd)
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd := exec.Command(exe, taskChild)
	cmd.Env = append(os.Environ(), "TASK_ROOT="+string(w.Root), "TASK_DIR="+w.Dir, "TASK_RENDER="+render, "TASK_KFD="+kfd)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot run the task container: %w\n%s", err, out.String())
	}
	d.say("%s", strings.TrimRight(out.String(), "\n"))
	if strings.Count(out.String(), "opened") != 4 {
		return errors.New("the task could not open its GPU")
	}
	return nil
}

// taskUnit is a unit whose GPU has the numbers of the stand-in devices.
func (d *demo) taskUnit(render, kfd string) (*sandbox.World, error) {
	w, err := d.unit("amd")
	if err != nil {
		return nil, err
	}
	major, _, _ := strings.Cut(kfd, ":")
	put := func(path, text string) {
		if err == nil {
			err = w.Root.WriteFile(path, []byte(text), 0o644)
		}
	}
	put("/dev/dri/renderD128", render+" 660 0 44\n")
	put("/dev/kfd", kfd+" 660 0 44\n")
	put("/proc/devices", "Character devices:\n "+major+" kfd\n\nBlock devices:\n")
	if err == nil {
		var at string
		if at, err = w.Root.Resolve("/sys/class/drm/renderD128"); err == nil {
			put(at+"/dev", render+"\n")
			// The card node is not needed for computing.
			err = w.Root.Remove("/dev/dri/card0")
		}
	}
	if err == nil {
		err = w.Model.SetConfig("compute-runtime", "rocm")
	}
	if err == nil {
		var r sandbox.Result
		if r, err = w.Hook("install"); err == nil && !w.Root.Exists("/etc/concourse-ci-machine/wrapper.json") {
			err = fmt.Errorf("the charm wired no wrapper: %s %s", r.Output, r.Status().Message)
		}
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// standInNodes names two devices that anybody who may open their nodes can
// open, and that runc allows to no container by itself; or says why this
// machine can't run the scene.
func standInNodes() (render, kfd, why string) {
	if os.Geteuid() != 0 {
		return "", "", "it needs root (sudo make demo)"
	}
	if _, err := exec.LookPath("runc"); err != nil {
		return "", "", "runc is not installed (sudo apt-get install runc)"
	}
	data, err := os.ReadFile("/proc/misc")
	if err != nil {
		return "", "", err.Error()
	}
	number := func(name string) string {
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) == 2 && f[1] == name {
				if _, err := strconv.Atoi(f[0]); err == nil {
					return "10:" + f[0]
				}
			}
		}
		return ""
	}
	if render, kfd = number("loop-control"), number("autofs"); render == "" || kfd == "" {
		return "", "", "this kernel has no loop-control and autofs devices to stand in for a GPU"
	}
	if err := exec.Command("unshare", "--mount", "true").Run(); err != nil {
		return "", "", "this machine allows no mount namespaces"
	}
	if _, err := os.Stat("/sys/fs/cgroup"); err != nil {
		return "", "", "this machine has no cgroups"
	}
	return render, kfd, ""
}

// InContainer answers when this program is a container's init, which waits, or
// its task.
func InContainer() (code int, done bool) {
	switch os.Args[0] {
	case "/init":
		for {
			syscall.Pause()
		}
	case "/task":
		return probe(os.Args[1:]), true
	}
	return 0, false
}

// probe opens the nodes of a GPU and says which open; it is the task.
func probe(nodes []string) int {
	code := 0
	for _, path := range nodes {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			fmt.Printf("  task as uid %d: %v\n", os.Getuid(), err)
			code = 1
			continue
		}
		fmt.Printf("  task as uid %d: %s opened\n", os.Getuid(), path)
		f.Close()
	}
	return code
}
