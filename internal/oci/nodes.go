package oci

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// errNoNodes means that the kernel lets this process make no device nodes, as
// in every user namespace, so inside an unprivileged LXD container.
var errNoNodes = errors.New("this machine refuses new device nodes")

// privateNodes is the directory for them, looked at once in a create.
type privateNodes struct {
	path  string
	known bool
	err   error
}

func (p *privateNodes) clone(m *machine, n liveNode) (string, error) {
	if !p.known {
		p.known, p.err = true, m.nodesDir(p.path)
	}
	if p.err != nil {
		return "", p.err
	}
	return m.clone(p.path, n)
}

// nodesDir makes the directory for private nodes, or checks the one there is.
func (m *machine) nodesDir(dir string) error {
	err := privateDir(dir, m.euid)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%w: %w", errNoNodes, err)
	}
	return err
}

// clone returns the path of a private node for the same device with mode 0666,
// in that directory, which only its owner can enter. A node of an earlier call is
// taken as long as it is still what it has to be. Calls at the same time are
// safe: each makes its own and renames it.
func (m *machine) clone(dir string, n liveNode) (string, error) {
	dev := unix.Mkdev(n.major, n.minor)
	path := dir + "/c" + strconv.FormatUint(uint64(n.major), 10) + "-" + strconv.FormatUint(uint64(n.minor), 10)
	var st unix.Stat_t
	if m.lstat(path, &st) == nil && st.Mode == unix.S_IFCHR|0o666 && st.Rdev == dev && st.Uid == m.euid {
		return path, nil
	}
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	os.Remove(temp) // of a process that had our number and was killed
	if err := m.mknod(temp, unix.S_IFCHR|0o600, int(dev)); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return "", fmt.Errorf("%w: %w", errNoNodes, err)
	} else if err != nil {
		return "", fmt.Errorf("cannot make device node %s: %w", temp, err)
	}
	if err := finishClone(dir, temp, path); err != nil {
		os.Remove(temp)
		return "", err
	}
	return path, nil
}

func finishClone(dir, temp, path string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("cannot inspect file system of %s: %w", dir, err)
	}
	if fs.Flags&unix.ST_NODEV != 0 {
		return fmt.Errorf("cannot use %s for device nodes: its file system is mounted nodev; choose another for nodes in the wrapper's config", dir)
	}
	if err := os.Chmod(temp, 0o666); err != nil { // past the umask
		return err
	}
	return os.Rename(temp, path)
}
