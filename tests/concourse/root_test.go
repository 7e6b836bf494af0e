//go:build e2e

package concourse

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/tests/debian"
)

// shift is where the ids of a user namespace begin, and how many there are, as
// LXD's are.
const (
	shift = 1000000
	ids   = 65536
)

// userNamespace is that of a machine as LXD's.
func userNamespace() *syscall.SysProcAttr {
	all := []syscall.SysProcIDMap{{HostID: shift, Size: ids}}
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{}}
}

// fakeSys are the folders of sysfs that have the fixture host's devices, too.
var fakeSys = []string{"class", "bus", "module", "devices"}

// real are the folders that lie on this machine's own file system: containers'
// overlays can't lie on the overlay that a machine's root is.
var real = []string{"/var/lib/concourse", "/srv"}

// masked are units of systemd that reach for the kernel that all machines share.
var masked = []string{"sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-journald-audit.socket"}

// base is the Debian that is below all machines' roots.
var base = sync.OnceValues(func() (string, error) {
	ctx := context.Background() // it ends with this program
	file, err := debian.Base(ctx)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(built, "debian")
	if err := debian.Unpack(ctx, file, dir); err != nil {
		return "", err
	}
	for _, name := range masked {
		if err := os.Symlink(os.DevNull, filepath.Join(dir, "etc/systemd/system", name)); err != nil {
			return "", err
		}
	}
	return dir, nil
})

func (u *unit) fake() host.Root { return host.Root(filepath.Join(u.Dir, "fake")) }

// makeRoot puts a Debian below the World's root. What a kernel shows of a
// fixture host moves away, to be laid over the machine's own.
func (u *unit) makeRoot() {
	t, root := u.t, string(u.Root)
	t.Helper()
	require.NoError(t, os.Mkdir(string(u.fake()), 0o755))
	for _, dir := range []string{"sys", "proc", "dev", "run"} {
		err := os.Rename(filepath.Join(root, dir), u.fake().Path(dir))
		if err != nil {
			require.ErrorIs(t, err, fs.ErrNotExist) // a host without /dev/kfd
		}
	}
	for _, dir := range []string{"work", "real", "tmp"} {
		require.NoError(t, os.Mkdir(filepath.Join(u.Dir, dir), 0o755))
	}
	for _, dir := range real {
		require.NoError(t, os.MkdirAll(filepath.Join(u.Dir, "real", dir), 0o755))
	}
	lower, err := base()
	require.NoError(t, err)
	if u.shifted {
		lower = u.shift(lower)
	}
	u.mount("overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, root, filepath.Join(u.Dir, "work")))
	for _, dir := range real {
		u.bind(filepath.Join(u.Dir, "real", dir), dir)
	}
	for _, dir := range []string{built, u.Dir} { // the charm and its tools, and the sockets of these
		u.bind(dir, dir)
	}
	for _, dir := range fakeSys {
		over := filepath.Join(u.Dir, "fake", "over", dir)
		require.NoError(t, os.MkdirAll(over, 0o755))
		require.NoError(t, u.fake().MkdirAll("/sys/"+dir, 0o755))
		u.mount("overlay", over, "overlay", unix.MS_RDONLY, "lowerdir="+u.fake().Path("/sys/"+dir)+":/sys/"+dir)
	}
	u.makeDev()
}

func (u *unit) mount(source, target, kind string, flags uintptr, data string) {
	u.t.Helper()
	t := u.t // that of the unit, not of a step
	require.NoError(t, unix.Mount(source, target, kind, flags, data), "%s on %s", source, target)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(target, unix.MNT_DETACH), target) })
}

// bind shows the machine a folder.
func (u *unit) bind(source, path string) {
	u.t.Helper()
	require.NoError(u.t, u.Root.MkdirAll(path, 0o755))
	u.mount(source, u.Root.Path(path), "", unix.MS_BIND, "")
}

// makeDev is a /dev with the nodes of every machine, and those that stand below
// the fixture's /dev as files.
func (u *unit) makeDev() {
	dev := u.Root.Path("/dev")
	u.mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755")
	for _, dir := range []string{"pts", "shm", "mqueue", "dri"} {
		require.NoError(u.t, os.Mkdir(filepath.Join(dev, dir), 0o755))
	}
	for name, n := range map[string][2]uint32{"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0}, "fuse": {10, 229}} {
		u.node("/dev/"+name, 0o666, 0, n[0], n[1])
	}
	for link, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"} {
		require.NoError(u.t, os.Symlink(to, filepath.Join(dev, link)))
	}
	for _, path := range gpuNodes(u.fake()) {
		text, err := u.fake().ReadFile(path)
		require.NoError(u.t, err)
		var major, minor, mode, uid, gid uint32
		_, err = fmt.Sscanf(string(text), "%d:%d %o %d %d", &major, &minor, &mode, &uid, &gid)
		require.NoError(u.t, err, "%s: %s", path, text)
		u.node(path, mode, int(gid), major, minor)
	}
	if u.shifted {
		u.chown(dev)
	}
}

func (u *unit) node(path string, mode uint32, gid int, major, minor uint32) {
	path = u.Root.Path(path)
	require.NoError(u.t, unix.Mknod(path, unix.S_IFCHR|mode, int(unix.Mkdev(major, minor))), path)
	require.NoError(u.t, os.Chown(path, 0, gid))
	require.NoError(u.t, os.Chmod(path, os.FileMode(mode)))
}

// chown gives what is in a folder the ids of the user namespace.
func (u *unit) chown(dir string) {
	u.t.Helper()
	require.NoError(u.t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		return os.Lchown(path, shift+int(st.Uid), shift+int(st.Gid))
	}))
}

// shift mounts the Debian with the ids of the user namespace, and gives these to
// what the World wrote.
func (u *unit) shift(debian string) string {
	t := u.t
	for _, dir := range []string{string(u.Root), filepath.Join(u.Dir, "real"), filepath.Join(u.Dir, "tmp")} {
		u.chown(dir)
	}
	for _, socket := range []string{"juju.sock", "machine.sock"} {
		require.NoError(t, os.Chmod(filepath.Join(u.Dir, socket), 0o777))
	}
	at := filepath.Join(u.Dir, "shifted")
	require.NoError(t, os.Mkdir(at, 0o755))
	tree, err := unix.OpenTree(unix.AT_FDCWD, debian, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(tree)
	holder := exec.Command("sleep", "infinity") // a user namespace lives with a process
	holder.SysProcAttr = userNamespace()
	require.NoError(t, holder.Start())
	defer holder.Wait()
	defer holder.Process.Kill()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Process.Pid))
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}))
	require.NoError(t, unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(at, unix.MNT_DETACH), at) })
	return at
}
