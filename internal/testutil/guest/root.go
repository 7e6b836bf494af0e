package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// fakeSys are the folders of sysfs to which the fixture host's devices are added.
var fakeSys = []string{"class", "bus", "module", "devices"}

// hidden are the folders of sysfs in which the fixture host's devices replace this
// machine's: a real GPU has the names of a stand-in.
var hidden = []string{"/sys/class/drm", "/sys/class/kfd", "/sys/bus/pci/devices", "/sys/bus/pci/drivers/amdgpu"}

// onDisk are the folders on the file system of the machine's folder. Overlays of containers
// cannot be on the overlay of the machine's root.
var onDisk = []string{"/var/lib/concourse", "/srv"}

// masked are units of systemd that use the kernel that all machines share.
var masked = []string{"sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-journald-audit.socket"}

// ownProc are the services that look at GPUs and have a protected hostname: systemd mounts a
// separate proc for them, with the kernel's list of drivers.
var ownProc = []string{"concourse-cdi-refresh", "concourse-gpu-device-plugin", "concourse-gpu-dra-driver",
	"concourse-pebble", "concourse-task-recorder", "gpukit-cdi", "rocm-gpu-exporter"}

// Prepare makes an unpacked debian.Base fit to be the Lower of machines.
func Prepare(debian string) error {
	for _, name := range masked {
		if err := os.Symlink(os.DevNull, filepath.Join(debian, "etc/systemd/system", name)); err != nil {
			return err
		}
	}
	return nil
}

// MakeRoot makes the machine's root: the Debian, with the fixture host's files over it. Files
// that a kernel shows move to Fake. StandIns comes before it.
func (g *Guest) MakeRoot() error {
	if err := g.makeFolders(); err != nil {
		return fmt.Errorf("cannot make a machine's root: %w", err)
	}
	lower, err := g.Lower, error(nil)
	if g.Shifted {
		if lower, err = g.shift(lower); err != nil {
			return fmt.Errorf("cannot make a machine's root: %w", err)
		}
	}
	root := string(g.Root)
	err = g.Mount("overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, root,
		filepath.Join(g.Dir, "work")))
	for _, dir := range onDisk {
		if err == nil {
			err = g.Bind(filepath.Join(g.Dir, "real", dir), dir)
		}
	}
	for _, dir := range append([]string{g.Dir}, g.Shared...) {
		if err == nil {
			err = g.Bind(dir, dir)
		}
	}
	for _, dir := range fakeSys {
		if err == nil {
			err = g.layOver(dir)
		}
	}
	if err == nil {
		err = g.makeDev()
	}
	if err != nil {
		return fmt.Errorf("cannot make a machine's root: %w", err)
	}
	return nil
}

// makeFolders makes the folders beside the root, and moves the kernel's files to Fake.
func (g *Guest) makeFolders() error {
	if err := os.Mkdir(string(g.Fake()), 0o755); err != nil {
		return err
	}
	for _, dir := range []string{"sys", "proc", "dev", "run"} {
		err := os.Rename(g.Root.Path(dir), g.Fake().Path(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a host without /dev/kfd
			return err
		}
	}
	for _, dir := range []string{"work", "real", "tmp"} {
		if err := os.Mkdir(filepath.Join(g.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	for _, dir := range onDisk {
		if err := os.MkdirAll(filepath.Join(g.Dir, "real", dir), 0o755); err != nil {
			return err
		}
	}
	for _, unit := range ownProc {
		if err := g.Root.WriteFile("/usr/lib/systemd/system/"+unit+".service.d/fixture.conf",
			[]byte("[Service]\nBindReadOnlyPaths="+g.Fake().Path("/proc/devices")+":/proc/devices\n"), 0o644); err != nil {
			return err
		}
	}
	for _, dir := range hidden {
		if !g.Fake().Exists(dir) {
			continue
		}
		if err := unix.Setxattr(g.Fake().Path(dir), "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			return fmt.Errorf("cannot hide this machine's devices in %s: %w", dir, err)
		}
	}
	return nil
}

// layOver lays the fixture host's part of a folder of sysfs over the kernel's.
func (g *Guest) layOver(dir string) error {
	over := filepath.Join(g.Dir, "fake", "over", dir)
	if err := errors.Join(os.MkdirAll(over, 0o755), g.Fake().MkdirAll("/sys/"+dir, 0o755)); err != nil {
		return err
	}
	return g.Mount("overlay", over, "overlay", unix.MS_RDONLY, "lowerdir="+g.Fake().Path("/sys/"+dir)+":/sys/"+dir)
}

// Mount mounts a file system. Unmount unmounts it.
func (g *Guest) Mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("cannot mount %s on %s: %w", source, target, err)
	}
	g.mounts = append(g.mounts, target)
	return nil
}

// Bind shows the machine a folder of this one.
func (g *Guest) Bind(source, path string) error {
	if err := g.Root.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return g.Mount(source, g.Root.Path(path), "", unix.MS_BIND, "")
}

// Unmount unmounts everything that Mount mounted.
func (g *Guest) Unmount() (err error) {
	for _, target := range slices.Backward(g.mounts) {
		if one := unix.Unmount(target, unix.MNT_DETACH); one != nil {
			err = errors.Join(err, fmt.Errorf("cannot unmount %s: %w", target, one))
		}
	}
	g.mounts = nil
	return err
}

// makeDev makes a /dev with the nodes of every machine, and those that are files below the
// fixture's /dev.
func (g *Guest) makeDev() error {
	dev := g.Root.Path("/dev")
	if err := g.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for _, dir := range []string{"pts", "shm", "mqueue", "dri"} {
		if err := os.Mkdir(filepath.Join(dev, dir), 0o755); err != nil {
			return err
		}
	}
	for name, n := range map[string][2]uint32{"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8},
		"urandom": {1, 9}, "tty": {5, 0}, "fuse": {10, 229}} {
		if err := makeNode(filepath.Join(dev, name), 0o666, 0, n); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2",
		"ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, filepath.Join(dev, link)); err != nil {
			return err
		}
	}
	for _, path := range Nodes(g.Fake()) {
		text, err := g.Fake().ReadFile(path)
		if err != nil {
			return err
		}
		var number [2]uint32
		var mode, uid, gid uint32
		if _, err := fmt.Sscanf(string(text), "%d:%d %o %d %d", &number[0], &number[1], &mode, &uid, &gid); err != nil {
			return fmt.Errorf("cannot read the node %s of the fixture: %w", path, err)
		}
		if err := makeNode(g.Root.Path(path), mode, int(gid), number); err != nil {
			return err
		}
	}
	if g.Shifted {
		return chown(dev)
	}
	return nil
}

// makeNode makes a character device of root.
func makeNode(path string, mode uint32, gid int, number [2]uint32) error {
	if err := unix.Mknod(path, unix.S_IFCHR|mode, int(unix.Mkdev(number[0], number[1]))); err != nil {
		return fmt.Errorf("cannot make the node %s: %w", path, err)
	}
	return errors.Join(os.Chown(path, 0, gid), os.Chmod(path, os.FileMode(mode)))
}
