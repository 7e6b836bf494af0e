package oci

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/gpu/cdispec/edits"
)

// bindAsUser is the way of an engine without root, which can make no node: the host's,
// where the user may open it and the container's process is let in as that user is.
func (m *machine) bindAsUser(e *edits.Edits, f facts, n liveNode) error {
	if inside, mapped := f.containerGID(n.gid); mapped && n.gid != overflowGID && n.mode&0o060 == 0o060 {
		bind(e, n, n.HostPath) // in a container of LXD's, by its group
		e.Process.AddGroup(inside)
		return nil
	}
	own := n.uid == m.euid && n.mode&0o600 == 0o600 || m.aclLetsIn(n.HostPath)
	uid, mapped := f.hostUID()
	problem := ""
	switch {
	case m.access(n.HostPath, unix.R_OK|unix.W_OK) != nil:
		problem = "this user may not open it; as root run: setfacl -m u:<user>:rw " + n.HostPath
	case own && mapped && uid == uint64(m.euid), f.keepGroups && !own:
	case own:
		problem = fmt.Sprintf("this user may open it, and the container's user %d is another; run it as root of the container, or with podman's --userns=keep-id", f.uid)
	default:
		problem = "this user may open it by a group only, which the container does not keep; give it podman's --group-add keep-groups, with crun, or as root run: setfacl -m u:<user>:rw " + n.HostPath
	}
	if problem != "" {
		return fmt.Errorf("cannot give the container %s: its mode is %04o, and %s", n.Path, n.mode, problem)
	}
	bind(e, n, n.HostPath)
	return nil
}

// aclLetsIn tells whether a node's access control list names this user, as logind's do
// for who sits at the machine (uapi/linux/posix_acl_xattr.h).
func (m *machine) aclLetsIn(path string) bool {
	const header, entry, user, readWrite = 4, 8, 2, 6
	buf := make([]byte, 4096)
	n, err := m.getxattr(path, "system.posix_acl_access", buf)
	if err != nil || n < header || n > len(buf) {
		return false
	}
	for row := buf[header:n]; len(row) >= entry; row = row[entry:] {
		tag, perm, id := binary.LittleEndian.Uint16(row), binary.LittleEndian.Uint16(row[2:]), binary.LittleEndian.Uint32(row[4:])
		if tag == user && id == m.euid && perm&readWrite == readWrite {
			return true
		}
	}
	return false
}

// hostUID is the first process's user as this process sees him.
func (f facts) hostUID() (uint64, bool) {
	if !f.userNS {
		return f.uid, true
	}
	return mapID(f.uidMaps, f.uid)
}

func mapID(maps []idMap, inside uint64) (uint64, bool) {
	for _, m := range maps {
		if inside >= m.containerID && inside-m.containerID < m.size {
			return m.hostID + inside - m.containerID, true
		}
	}
	return 0, false
}
