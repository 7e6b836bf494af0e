//go:build e2e

package concourse

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// gateway is where the tests and PostgreSQL are, for the machines.
const gateway = "10.99.0.1"

// machine is what its process 1 is told before it becomes systemd.
type machine struct {
	Root, Fake string // its root, and the fixture host's sysfs and list of drivers
	Address    string // that its interface has to have
}

// runMachine is process 1 of a machine in namespaces of its own.
func runMachine() error {
	runtime.LockOSThread() // a namespace is the thread's, which is the one that becomes systemd
	var m machine
	if err := json.NewDecoder(os.Stdin).Decode(&m); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) }, // its own group is the topmost from here on
		m.network,
		m.mounts,
		m.enter,
		func() error { return unix.Sethostname([]byte(filepath.Base(filepath.Dir(m.Root)))) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	// As in an LXD container: systemd leaves alone what is not this machine's.
	return unix.Exec("/lib/systemd/systemd", []string{"systemd"}, []string{"container=lxc", "PATH=" + systemPath})
}

func command(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", argv, err, out)
	}
	return nil
}

// network gives the interface its address. The worker wants a default route.
func (m machine) network() error {
	for _, line := range []string{"link set lo up", "address add " + m.Address + "/24 dev eth0", "link set eth0 up", "route add default via " + gateway} {
		if err := command(append([]string{"ip"}, strings.Fields(line)...)...); err != nil {
			return err
		}
	}
	return nil
}

// mounts are those that systemd finds; the others are its own. Sysfs can't be
// written and, of the kernel's settings, only those of the network: the others
// are all machines'. A whole proc and a whole sysfs have to stay in sight, or
// tasks in a user namespace may not mount one.
func (m machine) mounts() error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	type mount struct {
		from, to, kind string
		flags          uintptr
		data           string
	}
	all := []mount{
		{m.Root, "", "", unix.MS_BIND | unix.MS_REC, ""},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"proc", "/run/whole/proc", "proc", safe, ""},
		{"sysfs", "/run/whole/sys", "sysfs", safe, ""},
		{"proc", "/proc", "proc", safe, ""},
		{"/proc/sys", "/proc/sys", "", unix.MS_BIND, ""},
		{"", "/proc/sys", "", unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | safe, ""},
		{m.Root + "/run/whole/proc/sys/net", "/proc/sys/net", "", unix.MS_BIND, ""},
		{m.Fake + "/proc/devices", "/proc/devices", "", unix.MS_BIND, ""},
		{"sysfs", "/sys", "sysfs", safe | unix.MS_RDONLY, ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", safe, ""},
	}
	for _, dir := range fakeSys {
		all = append(all, mount{filepath.Join(m.Fake, "over", dir), filepath.Join("/sys", dir), "", unix.MS_BIND | unix.MS_REC, ""})
	}
	for _, e := range all {
		to := filepath.Join(m.Root, e.to)
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

// enter makes the root "/", and what was before is not there any more.
func (m machine) enter() error {
	if err := unix.Chdir(m.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old one lies over the new one
		return fmt.Errorf("cannot change the root to %s: %w", m.Root, err)
	}
	return unix.Unmount(".", unix.MNT_DETACH)
}
