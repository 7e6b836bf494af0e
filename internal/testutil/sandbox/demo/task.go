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

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// taskChild is the argument that starts this program in the namespace of the task
// container's machine.
const taskChild = "task-in-own-namespace"

// task runs a container through the installed wrapper, as Concourse would, if this machine
// can.
func (d *demo) task() (string, error) {
	d.screen.title("a task through the installed wrapper and this machine's runc")
	why := d.missingRunc()
	render, kfd := "", ""
	if why == "" {
		render, kfd, why = standInNodes()
	}
	if why != "" {
		d.screen.mark(leftOut, "%s", why)
		return "", missing{why}
	}
	w, err := d.taskUnit(render, kfd)
	if err != nil {
		return "", err
	}
	d.screen.item("stand-in", "for the GPU's nodes, devices of this kernel that need no GPU: %s as "+
		"/dev/dri/renderD128, %s as /dev/kfd", render, kfd)
	d.screen.item("task", "unprivileged, in a user namespace, as Concourse makes it")
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd := exec.Command(exe, taskChild)
	cmd.Env = append(os.Environ(), "TASK_ROOT="+string(w.Root), "TASK_DIR="+w.Dir, "TASK_RENDER="+render,
		"TASK_KFD="+kfd)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cannot run the task container: %w\n%s", err, out.String())
	}
	opened := 0
	for line := range strings.Lines(out.String()) {
		m := passed
		if strings.Contains(line, "task as uid") {
			if strings.HasSuffix(line, "opened\n") {
				opened++
			} else {
				m = failed
			}
		}
		d.screen.mark(m, "%s", strings.TrimSpace(line))
	}
	if opened != 4 {
		return "", errors.New("the task could not open its GPU")
	}
	return "opened the nodes of its GPU, as root and as another user", nil
}

// taskUnit returns a unit with a GPU that has the numbers of the stand-in devices.
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
		return nil, err
	}
	return w, nil
}

// standInNodes returns two devices that every user with access to their nodes can open, and
// that runc allows to no container by default. why is the reason if this machine can't run
// the scene.
func standInNodes() (render, kfd, why string) {
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
		return "", "", "no loop-control and autofs here to stand in for a GPU"
	}
	if err := exec.Command("unshare", "--mount", "true").Run(); err != nil {
		return "", "", "this machine allows no mount namespaces"
	}
	if _, err := os.Stat("/sys/fs/cgroup"); err != nil {
		return "", "", "this machine has no cgroups"
	}
	return render, kfd, ""
}

// missingRunc provides runc as root. It returns the reason why the scene cannot have it, or
// "".
func (d *demo) missingRunc() string {
	if os.Geteuid() != 0 {
		return "it needs " + asRoot
	}
	if _, err := exec.LookPath("runc"); err == nil {
		return ""
	}
	if len(debian.Missing("apt-get", "dpkg-deb")) > 0 {
		return "runc is missing: install your distribution's package runc, then run make demo again"
	}
	if err := d.getPrograms("runc"); err != nil {
		return firstLine(err.Error())
	}
	return ""
}

// firstLine returns the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// InContainer runs the container's init, which waits, or its task, if this program was
// started as one.
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

// probe runs the task: it opens the nodes of a GPU and prints the results.
func probe(nodes []string) int {
	code := 0
	for _, path := range nodes {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			fmt.Printf("task as uid %d: %v\n", os.Getuid(), err)
			code = 1
			continue
		}
		fmt.Printf("task as uid %d: %s opened\n", os.Getuid(), path)
		f.Close()
	}
	return code
}
