package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"concourse-ci-machine/internal/base/host"
)

const (
	driDir        = "/dev/dri"
	containerFile = "/run/systemd/container" // systemd: "lxc" in an LXD unit
	overflowID    = 65534                    // what an id without a mapping shows as, user_namespaces(7)
)

// verdict is why a node cannot be used.
type verdict struct {
	reason Reason
	text   string
}

// node looks for the DRM node name in /dev/dri and compares it with what
// sysfs says of it.
func (d *discovery) node(dev *drmDevice, name string) (host.Node, *verdict) {
	p := path.Join(driDir, name)
	n, err := d.root.Node(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n, &verdict{NotPassedThrough, fmt.Sprintf("%s is not there: %s", p, NotPassedThrough.Text())}
	case errors.Is(err, host.ErrNotDevice):
		return n, &verdict{NotADevice, fmt.Sprintf("%s is not a character device", p)}
	case err != nil:
		return n, &verdict{Unreadable, err.Error()}
	}
	text, err := read(d.root, path.Join(dev.class[name], "dev"))
	if errors.Is(err, errHangs) {
		return n, &verdict{Hangs, Hangs.Text()}
	}
	if err != nil {
		return n, &verdict{SysfsUnreadable, fmt.Sprintf("sysfs gives no device number for %s", name)}
	}
	major, minor, err := host.ParseNumber(text)
	switch {
	case err != nil:
		return n, &verdict{SysfsUnreadable, err.Error()}
	case !n.Is(major, minor):
		return n, &verdict{WrongNumber, fmt.Sprintf("%s is %s where sysfs says %d:%d", p, n.Number(), major, minor)}
	case !reachable(d.root.Root, n):
		return n, &verdict{Unreadable, unreachableText(n)}
	}
	n.Major, n.Minor = major, minor
	return n, nil
}

// reachable reports whether root may open the node for reading and writing.
// It always may, except in a container for a node whose owner or group is not
// mapped into it: there the kernel withholds CAP_DAC_OVERRIDE
// (privileged_wrt_inode_uidgid) and the permission bits decide.
func reachable(r host.Root, n host.Node) bool {
	const read, write = 0o4, 0o2
	if n.Any || n.UID != overflowID && n.GID != overflowID {
		return true // an empty stand-in says nothing of an owner
	}
	bits := n.Mode & 0o7
	switch {
	case n.UID == 0:
		bits = n.Mode >> 6 & 0o7
	case n.GID == 0:
		bits = n.Mode >> 3 & 0o7
	}
	return bits&(read|write) == read|write || !r.Exists(containerFile)
}

func unreachableText(n host.Node) string {
	return fmt.Sprintf("%s has mode %04o and belongs to an owner outside this container (%d:%d)", n.Path, n.Mode,
		n.UID, n.GID)
}
