package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// The ids of a user namespace, as LXD maps them.
const (
	firstID = 1000000
	ids     = 65536
)

// userNamespace returns the attributes of a process in a user namespace like LXD's.
func userNamespace() *syscall.SysProcAttr {
	all := []syscall.SysProcIDMap{{HostID: firstID, Size: ids}}
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all,
		GidMappingsEnableSetgroups: true, Credential: &syscall.Credential{}}
}

// chown gives the content of a folder the ids of the user namespace.
func chown(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		return os.Lchown(path, firstID+int(st.Uid), firstID+int(st.Gid))
	})
}

// shift mounts the Debian with the ids of the user namespace, and gives these ids to the
// files of the machine's folder. It returns the mount's folder.
func (g *Guest) shift(debian string) (string, error) {
	for _, dir := range []string{string(g.Root), filepath.Join(g.Dir, "real"), filepath.Join(g.Dir, "tmp")} {
		if err := chown(dir); err != nil {
			return "", err
		}
	}
	at := filepath.Join(g.Dir, "shifted")
	if err := os.Mkdir(at, 0o755); err != nil {
		return "", err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, debian, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return "", err
	}
	defer unix.Close(tree)
	holder := exec.Command("sleep", "infinity") // a user namespace lives with a process
	holder.SysProcAttr = userNamespace()
	if err := holder.Start(); err != nil {
		return "", err
	}
	defer holder.Wait()
	defer holder.Process.Kill()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Process.Pid))
	if err != nil {
		return "", err
	}
	defer ns.Close()
	if err := errors.Join(
		unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}),
		unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)); err != nil {
		return "", fmt.Errorf("cannot mount %s with other ids: %w", debian, err)
	}
	g.mounts = append(g.mounts, at)
	return at, nil
}
