package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Node describes a character device below /dev.
type Node struct {
	Path         string
	Major, Minor uint32
	Mode         fs.FileMode // permission bits only
	UID, GID     uint32
	// Any is set for an empty stand-in file below a fixture root. The node then exists with
	// any number that sysfs shows.
	Any bool
}

// Is reports whether the node has the device number from sysfs.
func (n Node) Is(major, minor uint32) bool { return n.Any || n.Major == major && n.Minor == minor }

// Number returns "major:minor" as sysfs writes it in `dev` files.
func (n Node) Number() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// ErrNotDevice reports that the name belongs to another kind of file.
var ErrNotDevice = errors.New("not a character device")

// Node reads the character device p without opening it or following a link. Below a root
// other than the machine's own, where device nodes would need root, a regular file stands
// for a node. Its content is "major:minor", optionally followed by " mode uid gid" (mode in
// octal). Mode and owner default to the file's own. An empty file is a node of any number.
func (r Root) Node(p string) (Node, error) {
	st, err := r.Lstat(p)
	if err != nil {
		return Node{}, err
	}
	sys := st.Sys().(*syscall.Stat_t)
	n := Node{Path: p, Mode: st.Mode().Perm(), UID: sys.Uid, GID: sys.Gid}
	switch {
	case st.Mode()&fs.ModeCharDevice != 0:
		n.Major, n.Minor = unix.Major(sys.Rdev), unix.Minor(sys.Rdev)
		return n, nil
	case !r.Real() && st.Mode().IsRegular():
		return n, r.readStandIn(p, &n)
	}
	return Node{}, fmt.Errorf("cannot use %s: %w", p, ErrNotDevice)
}

func (r Root) readStandIn(p string, n *Node) error {
	text, err := r.ReadText(p)
	if err != nil {
		return err
	}
	f := strings.Fields(text)
	if len(f) == 0 {
		n.Any = true
		return nil
	}
	if len(f) != 1 && len(f) != 4 {
		return fmt.Errorf("cannot use %s: %w, nor does it hold \"major:minor [mode uid gid]\"", p, ErrNotDevice)
	}
	if n.Major, n.Minor, err = ParseNumber(f[0]); err != nil || len(f) == 1 {
		return err
	}
	var v [3]uint64
	for i, base := range []int{8, 10, 10} {
		if v[i], err = strconv.ParseUint(f[i+1], base, 32); err != nil {
			return fmt.Errorf("cannot read %s: %w", p, err)
		}
	}
	n.Mode, n.UID, n.GID = fs.FileMode(v[0]).Perm(), uint32(v[1]), uint32(v[2])
	return nil
}

// ParseNumber parses a device number from a sysfs `dev` file: "226:128".
func ParseNumber(s string) (major, minor uint32, err error) {
	a, b, ok := strings.Cut(strings.TrimSpace(s), ":")
	if !ok {
		return 0, 0, fmt.Errorf("cannot read device number %q: want major:minor", s)
	}
	x, err := strconv.ParseUint(a, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read device number %q: %w", s, err)
	}
	y, err := strconv.ParseUint(b, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read device number %q: %w", s, err)
	}
	return uint32(x), uint32(y), nil
}
