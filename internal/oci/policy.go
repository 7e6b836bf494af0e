package oci

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
)

// overflowGID is the group that the kernel shows for a group without a number in the
// current user namespace (/proc/sys/kernel/overflowgid, unless changed).
const overflowGID = 65534

// liveNode describes a device node as it is on the machine now.
type liveNode struct {
	cdispec.Node
	major, minor uint32
	mode         uint32 // permission bits
	uid, gid     uint32
}

// inspect reads the node itself and compares it with the spec: a stale spec must never give
// a task another device.
func (m *machine) inspect(n cdispec.Node) (liveNode, error) {
	var st unix.Stat_t
	if err := m.lstat(n.HostPath, &st); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return liveNode{}, m.runAgain(fmt.Errorf("cannot give the task %s: %s is missing on this machine, though "+
				"CDI spec %s lists it; %s, or restore the GPU", n.Path, n.HostPath, n.File,
				m.staleSpecRemedy()))
		}
		return liveNode{}, fmt.Errorf("cannot give the task %s: cannot inspect %s: %w", n.Path, n.HostPath, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return liveNode{}, fmt.Errorf("cannot give the task %s: %s is not a character device", n.Path, n.HostPath)
	}
	live := liveNode{Node: n, major: unix.Major(st.Rdev), minor: unix.Minor(st.Rdev), mode: st.Mode & 0o777,
		uid: st.Uid, gid: st.Gid}
	if (n.Major != 0 || n.Minor != 0) && (n.Major != uint64(live.major) || n.Minor != uint64(live.minor)) {
		return liveNode{}, fmt.Errorf("cannot give the task %s: CDI spec %s is stale: it has %d:%d for %s, "+
			"which is %d:%d now; "+
			"%s, run the task again after that",
			n.Path, n.File, n.Major, n.Minor, n.HostPath, live.major, live.minor, m.staleSpecRemedy())
	}
	return live, nil
}

// addNodes adds the edits that let any user in the container open the nodes. The reasons
// are at each branch. runc 1.1.5 and 1.4.0 agree.
func (m *machine) addNodes(e *edits.Edits, f facts, nodes []cdispec.Node, nodesDir string) error {
	dir := privateNodes{path: nodesDir}
	e.Mounts, e.Rules = make([]edits.Mount, 0, len(nodes)), make([]edits.Rule, 0, len(nodes))
	for _, n := range nodes {
		live, err := m.inspect(n)
		if err != nil {
			return err
		}
		// Every case needs the rule: neither a mount nor linux.devices opens the device
		// cgroup, and KFD hides each GPU that the cgroup does not allow.
		e.Rules = append(e.Rules, edits.Rule{Allow: true, Type: "c", Major: live.major, Minor: live.minor,
			Access: "rw"})
		if err := m.addNode(e, f, live, &dir); err != nil {
			return err
		}
	}
	return nil
}

// addNode chooses how the node gets into the container.
func (m *machine) addNode(e *edits.Edits, f facts, n liveNode, dir *privateNodes) error {
	open, rootless := n.mode&0o006 == 0o006, m.rootless()
	if open && (f.userNS || rootless) {
		// In a user namespace runc cannot make nodes, and this one is open to all.
		bind(e, n, n.HostPath)
		return nil
	}
	if rootless {
		return m.bindAsUser(e, f, n)
	}
	clone := ""
	if !open {
		var err error
		if clone, err = dir.clone(m, n); errors.Is(err, errNoNodes) {
			return bindWithGroup(e, f, n, err)
		} else if err != nil {
			return fmt.Errorf("cannot give the task %s: %w", n.Path, err)
		}
	}
	if f.userNS {
		// The host's node keeps its mode. Its copy is open to all, but is in a directory
		// that only root can enter.
		bind(e, n, clone)
		return nil
	}
	// runc makes a new node with this mode in the container's /dev.
	e.Devices = append(e.Devices, edits.Device{Path: n.Path, Type: "c", Major: n.major, Minor: n.minor,
		FileMode: 0o666})
	return nil
}

func bind(e *edits.Edits, n liveNode, source string) {
	e.Mounts = append(e.Mounts, edits.Mount{Destination: n.Path, Type: "bind", Source: source,
		Options: []string{"bind", "rw", "nosuid", "noexec"}})
}

// bindWithGroup binds the host's node and adds its group to each process. It is for LXD,
// where neither the wrapper nor runc can make nodes.
func bindWithGroup(e *edits.Edits, f facts, n liveNode, why error) error {
	inside, mapped := f.containerGID(n.gid)
	problem := ""
	switch {
	case n.mode&0o060 != 0o060:
		problem = fmt.Sprintf("its mode is %04o, which lets no group read and write", n.mode)
	case n.gid == overflowGID:
		problem = "its group has no number in this machine's user namespace"
	case !mapped:
		problem = fmt.Sprintf("its group %d has no number in the container's user namespace", n.gid)
	}
	if problem != "" {
		m := thisManager()
		open := m.OpenGPU()
		if n.Path == "/dev/kfd" {
			open = m.OpenKFD("override")
		}
		return fmt.Errorf("cannot give the task %s: %s, and no private node can be made (%w) — %s", n.Path, problem,
			why, m.On(open))
	}
	bind(e, n, n.HostPath)
	e.Process.AddGroup(inside)
	return nil
}

// thisManager returns the manager of this container, for a text.
func thisManager() wellknown.Manager {
	name, err := os.Hostname()
	if err != nil {
		name = "<container>"
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return wellknown.ManagerOf(string(mounts), strings.TrimSpace(string(kernel)), name)
}

// bindAsUser binds the host's node for an engine without root, which cannot make nodes. The
// user must be able to open the node, and the container's process must keep that right.
func (m *machine) bindAsUser(e *edits.Edits, f facts, n liveNode) error {
	if inside, mapped := f.containerGID(n.gid); mapped && n.gid != overflowGID && n.mode&0o060 == 0o060 {
		bind(e, n, n.HostPath) // in a container of LXD, through its group
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
		problem = fmt.Sprintf("this user may open it, and the container's user %d is another; run it as root of "+
			"the container, or with podman's --userns=keep-id", f.uid)
	default:
		problem = "this user may open it by a group only, which the container does not keep; give it podman's " +
			"--group-add keep-groups, with crun, or as root run: setfacl -m u:<user>:rw " + n.HostPath
	}
	if problem != "" {
		return fmt.Errorf("cannot give the container %s: its mode is %04o, and %s", n.Path, n.mode, problem)
	}
	bind(e, n, n.HostPath)
	return nil
}

// aclLetsIn reports whether a node's access control list names this user. logind adds the
// user who works at the machine (uapi/linux/posix_acl_xattr.h).
func (m *machine) aclLetsIn(path string) bool {
	const header, entry, user, readWrite = 4, 8, 2, 6
	buf := make([]byte, 4096)
	n, err := m.getxattr(path, "system.posix_acl_access", buf)
	if err != nil || n < header || n > len(buf) {
		return false
	}
	for row := buf[header:n]; len(row) >= entry; row = row[entry:] {
		tag, perm := binary.LittleEndian.Uint16(row), binary.LittleEndian.Uint16(row[2:])
		id := binary.LittleEndian.Uint32(row[4:])
		if tag == user && id == m.euid && perm&readWrite == readWrite {
			return true
		}
	}
	return false
}

// hostUID returns the number of the first process's user outside the container.
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

// errNoNodes means that the kernel lets this process make no device nodes. This is so in
// every user namespace and therefore in an unprivileged LXD container.
var errNoNodes = errors.New("this machine refuses new device nodes")

// privateNodes manages the directory for private nodes. A create checks it once.
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

// nodesDir makes the directory for private nodes, or checks the existing one.
func (m *machine) nodesDir(dir string) error {
	err := privateDir(dir, m.euid)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%w: %w", errNoNodes, err)
	}
	return err
}

// clone returns the path of a private node for the same device with mode 0666, in a
// directory that only its owner can enter. A node of an earlier call is used if it is still
// correct. Concurrent calls are safe, because each makes a node and renames it.
func (m *machine) clone(dir string, n liveNode) (string, error) {
	dev := unix.Mkdev(n.major, n.minor)
	path := dir + "/c" + strconv.FormatUint(uint64(n.major), 10) + "-" + strconv.FormatUint(uint64(n.minor), 10)
	var st unix.Stat_t
	if m.lstat(path, &st) == nil && st.Mode == unix.S_IFCHR|0o666 && st.Rdev == dev && st.Uid == m.euid {
		return path, nil
	}
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	os.Remove(temp) // of a killed process that had this number
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
		return fmt.Errorf("cannot use %s for device nodes: its file system is mounted nodev; choose another for "+
			"nodes in the wrapper's config", dir)
	}
	if err := os.Chmod(temp, 0o666); err != nil { // past the umask
		return err
	}
	return os.Rename(temp, path)
}
