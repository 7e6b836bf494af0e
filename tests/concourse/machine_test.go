//go:build e2e

package concourse

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// gateway is where the tests and PostgreSQL are, for the machines.
const gateway = "10.99.0.1"

// given are the World's folders that a machine has at their true paths. The
// rest of it is this machine's: programs and libraries.
var given = []string{"/var/lib/concourse", "/var/lib/concourse-worker", "/var/lib/concourse-charm", "/opt/concourse-ci-machine",
	"/etc/concourse-ci-machine", "/etc/cdi", "/etc/default", "/etc/systemd/system", "/srv"}

// runMachine is process 1 of a machine. dir is the World's folder; the first line
// of the standard input is the machine's address, told when its interface is there.
func runMachine(dir string) error {
	// All mounts are the machine's own.
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	address, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return network(strings.TrimSpace(address)) },
		func() error { return ownRoot(dir) },
		func() error { return ownDev(filepath.Join(dir, "root")) },
		func() error { return unix.Sethostname([]byte(filepath.Base(dir))) },
		func() error { return os.Mkdir(filepath.Join(dir, "log"), 0o755) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	m := &manager{dir: dir, services: map[string]*service{}, waiting: map[int]chan syscall.WaitStatus{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go m.reap(ended)
	l, err := net.Listen("unix", socketOf(dir))
	if err != nil {
		return err
	}
	return m.serve(l)
}

func command(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", argv, err, out)
	}
	return nil
}

// network gives the interface its address. The worker wants a default route.
func network(address string) error {
	for _, line := range []string{"link set lo up", "address add " + address + "/24 dev eth0", "link set eth0 up", "route add default via " + gateway} {
		if err := command(append([]string{"ip"}, strings.Fields(line)...)...); err != nil {
			return err
		}
	}
	return nil
}

// ownRoot puts the World's folders in place. Folders that lack are made in an
// overlay, so that this machine's own file system stays as it is.
func ownRoot(dir string) error {
	for _, m := range []struct{ fs, at, data string }{{"proc", "/proc", ""}, {"tmpfs", "/run", "mode=755"}, {"tmpfs", "/mnt", "mode=755"}} {
		if err := unix.Mount(m.fs, m.at, m.fs, 0, m.data); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.at, err)
		}
	}
	for _, at := range []string{"/etc", "/opt", "/var/lib"} {
		upper := filepath.Join("/mnt", at)
		if err := os.MkdirAll(upper, 0o755); err != nil {
			return err
		}
		if err := os.MkdirAll(upper+".work", 0o755); err != nil {
			return err
		}
		if err := unix.Mount("overlay", at, "overlay", 0, "lowerdir="+at+",upperdir="+upper+",workdir="+upper+".work"); err != nil {
			return fmt.Errorf("cannot mount an overlay on %s: %w", at, err)
		}
	}
	for _, at := range append([]string{"/var/lib/cni", "/run/lock"}, given...) {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
	}
	for _, at := range given {
		if err := unix.Mount(filepath.Join(dir, "root", at), at, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot mount %s: %w", at, err)
		}
	}
	// Not of this machine: the worker's network state and the unit's users.
	if err := unix.Mount("tmpfs", "/var/lib/cni", "tmpfs", 0, ""); err != nil {
		return err
	}
	for _, name := range []string{"/etc/passwd", "/etc/group"} {
		data, err := os.ReadFile(filepath.Join(dir, "root", name))
		if err == nil {
			err = os.WriteFile(name, data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ownDev is a /dev with the nodes of every machine, and those that stand below
// the World's /dev as files.
func ownDev(root string) error {
	const dev = "/mnt/dev"
	if err := os.Mkdir(dev, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for _, d := range []string{"pts", "shm", "mqueue", "dri"} {
		if err := os.Mkdir(filepath.Join(dev, d), 0o755); err != nil {
			return err
		}
	}
	for name, n := range map[string][2]uint32{"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0}} {
		if err := node(filepath.Join(dev, name), 0o666, 0, n[0], n[1]); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, filepath.Join(dev, link)); err != nil {
			return err
		}
	}
	for _, name := range []string{"kfd", "dri/card0", "dri/renderD128"} {
		text, err := os.ReadFile(filepath.Join(root, "dev", name))
		if os.IsNotExist(err) {
			continue // a machine without a GPU
		}
		var major, minor, mode, uid, gid uint32
		if _, err := fmt.Sscanf(string(text), "%d:%d %o %d %d", &major, &minor, &mode, &uid, &gid); err != nil {
			return fmt.Errorf("cannot make /dev/%s of %q: %w", name, text, err)
		}
		if err := node(filepath.Join(dev, name), mode, int(gid), major, minor); err != nil {
			return err
		}
	}
	if err := unix.Mount("devpts", filepath.Join(dev, "pts"), "devpts", 0, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return err
	}
	return unix.Mount(dev, "/dev", "", unix.MS_MOVE, "")
}

func node(path string, mode uint32, gid int, major, minor uint32) error {
	if err := unix.Mknod(path, unix.S_IFCHR|mode, int(unix.Mkdev(major, minor))); err != nil {
		return fmt.Errorf("cannot make %s: %w", path, err)
	}
	if err := os.Chown(path, 0, gid); err != nil {
		return err
	}
	return os.Chmod(path, os.FileMode(mode))
}
