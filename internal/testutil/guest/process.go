package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// processEnv is set in process 1 of a machine.
const processEnv = "CONCOURSE_TEST_MACHINE"

// Intercept becomes process 1 of a machine if this program was started as one. It returns
// only otherwise. A program that uses the package calls it first.
func Intercept() {
	if os.Getenv(processEnv) == "" || os.Getpid() != 1 {
		return
	}
	fmt.Fprintln(os.Stderr, "cannot start a machine:", boot())
	os.Exit(1)
}

// process holds the input of process 1 before it becomes systemd.
type process struct {
	Root, Fake string // its root, and the fixture host's sysfs and list of drivers
	Address    string // of its interface
}

// boot prepares the namespaces and becomes systemd. It returns only an error.
func boot() error {
	runtime.LockOSThread() // a namespace belongs to the thread, which becomes systemd
	var p process
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) }, // its own group becomes the topmost
		p.network,
		p.mounts,
		p.enter,
		func() error { return unix.Sethostname([]byte(filepath.Base(filepath.Dir(p.Root)))) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	// As in a container of LXD, systemd then leaves the kernel's parts alone.
	return unix.Exec("/lib/systemd/systemd", []string{"systemd"}, []string{"container=lxc", "PATH=" + Path})
}

// network gives the interface its address. The worker needs a default route.
func (p process) network() error {
	for _, line := range []string{"link set lo up", "address add " + p.Address + "/24 dev eth0", "link set eth0 up",
		"route add default via " + Gateway} {
		if err := Command(append([]string{"ip"}, strings.Fields(line)...)...); err != nil {
			return err
		}
	}
	return nil
}

// mounts makes the mounts that systemd does not make itself. Sysfs is read-only, and only
// the kernel's settings of the network can be written, because all machines share the
// others. A whole proc and a whole sysfs stay visible: without them tasks in a user
// namespace may not mount one.
func (p process) mounts() error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	type mount struct {
		from, to, kind string
		flags          uintptr
		data           string
	}
	all := []mount{
		{p.Root, "", "", unix.MS_BIND | unix.MS_REC, ""},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"proc", "/run/whole/proc", "proc", safe, ""},
		{"sysfs", "/run/whole/sys", "sysfs", safe, ""},
		{"proc", "/proc", "proc", safe, ""},
		{"/proc/sys", "/proc/sys", "", unix.MS_BIND, ""},
		{"", "/proc/sys", "", unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | safe, ""},
		{p.Root + "/run/whole/proc/sys/net", "/proc/sys/net", "", unix.MS_BIND, ""},
		{p.Fake + "/proc/devices", "/proc/devices", "", unix.MS_BIND, ""},
		{"sysfs", "/sys", "sysfs", safe | unix.MS_RDONLY, ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", safe, ""},
	}
	for _, dir := range fakeSys {
		all = append(all, mount{filepath.Join(p.Fake, "over", dir), filepath.Join("/sys", dir), "",
			unix.MS_BIND | unix.MS_REC, ""})
	}
	for _, dir := range []string{"/sys/class/net", "/sys/devices/virtual/net"} { // of this machine's namespace
		all = append(all, mount{p.Root + "/run/whole" + dir, dir, "", unix.MS_BIND, ""})
	}
	for _, e := range all {
		to := filepath.Join(p.Root, e.to)
		if !strings.HasPrefix(e.to, "/proc/") && !strings.HasPrefix(e.to, "/sys/") {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(e.from, to, e.kind, e.flags, e.data); err != nil {
			return fmt.Errorf("cannot mount %s on %s: %w", e.from, to, err)
		}
	}
	return nil
}

// enter makes the root "/" and removes the previous one from sight.
func (p process) enter() error {
	if err := unix.Chdir(p.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root lies over the new one
		return fmt.Errorf("cannot change the root to %s: %w", p.Root, err)
	}
	return unix.Unmount(".", unix.MNT_DETACH)
}
