package oci

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/gpu/cdispec"
	"concourse-ci-machine/internal/gpu/cdispec/edits"
)

// overflowGID is the group that the kernel shows for one that has no number in
// the current user namespace (/proc/sys/kernel/overflowgid, unless changed).
const overflowGID = 65534

// liveNode is a device node as it is on the machine now.
type liveNode struct {
	cdispec.Node
	major, minor uint32
	mode         uint32 // permission bits
	uid, gid     uint32
}

// inspect looks at the node itself and not at what the spec says of it: a
// stale spec must never give a task another device.
func (m *machine) inspect(n cdispec.Node) (liveNode, error) {
	var st unix.Stat_t
	if err := m.lstat(n.HostPath, &st); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return liveNode{}, fmt.Errorf("cannot give the task %s: there is no %s on this machine, though CDI spec %s lists it; "+
				"%s, and until then the GPU has to come back", n.Path, n.HostPath, n.File, m.writtenAnew())
		}
		return liveNode{}, fmt.Errorf("cannot give the task %s: cannot inspect %s: %w", n.Path, n.HostPath, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return liveNode{}, fmt.Errorf("cannot give the task %s: %s is not a character device", n.Path, n.HostPath)
	}
	live := liveNode{Node: n, major: unix.Major(st.Rdev), minor: unix.Minor(st.Rdev), mode: st.Mode & 0o777, uid: st.Uid, gid: st.Gid}
	if (n.Major != 0 || n.Minor != 0) && (n.Major != uint64(live.major) || n.Minor != uint64(live.minor)) {
		return liveNode{}, fmt.Errorf("cannot give the task %s: CDI spec %s is stale: it says %d:%d for %s, which is %d:%d now; "+
			"%s, run the task again after that",
			n.Path, n.File, n.Major, n.Minor, n.HostPath, live.major, live.minor, m.writtenAnew())
	}
	return live, nil
}

// addNodes adds what has to change so that a process of any user in the container
// can open the nodes. Reasons are at each branch; runc 1.1.5 and 1.4.0 agree.
func (m *machine) addNodes(e *edits.Edits, f facts, nodes []cdispec.Node, nodesDir string) error {
	dir := privateNodes{path: nodesDir}
	e.Mounts, e.Rules = make([]edits.Mount, 0, len(nodes)), make([]edits.Rule, 0, len(nodes))
	for _, n := range nodes {
		live, err := m.inspect(n)
		if err != nil {
			return err
		}
		// Needed in every case: neither a mount nor linux.devices opens the
		// device cgroup, and KFD hides each GPU that the cgroup does not allow.
		e.Rules = append(e.Rules, edits.Rule{Allow: true, Type: "c", Major: live.major, Minor: live.minor, Access: "rw"})
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
		// In a user namespace runc can't make nodes; this one suits as it is.
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
		// The host's node stays as closed as it is. Its copy is open to all,
		// but stands in a directory that only root can enter.
		bind(e, n, clone)
		return nil
	}
	// runc makes a node of its own, with this mode, in the container's /dev.
	e.Devices = append(e.Devices, edits.Device{Path: n.Path, Type: "c", Major: n.major, Minor: n.minor, FileMode: 0o666})
	return nil
}

func bind(e *edits.Edits, n liveNode, source string) {
	e.Mounts = append(e.Mounts, edits.Mount{Destination: n.Path, Type: "bind", Source: source, Options: []string{"bind", "rw", "nosuid", "noexec"}})
}

// opens lets the tasks of a container open a node: by the group video, which has
// this number on every Debian and Ubuntu and in each task.
const opens = " gid=44 mode=0660 "

// OpenGPU is the command on the LXD host that lets tasks open a GPU's nodes. The
// status of a unit says the same as a refusal.
func OpenGPU(container string) string {
	return "lxc config device set " + container + " gpu0" + opens + "(gpu0: the device's name in lxc config device show " + container + ")"
}

// OpenKFD is that for /dev/kfd. verb is what changes its device, as far as that is
// known here: whether a profile has it is the host's to know.
func OpenKFD(container, verb string) string {
	return "lxc config device " + verb + " " + container + " kfd" + opens + "(set where the device is the container's own, override where a profile has it)"
}

// bindWithGroup is the way inside LXD, where no node can be made, neither by
// the wrapper nor by runc: the host's node, and its group for each process.
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
		host, err := os.Hostname()
		if err != nil {
			host = "<container>"
		}
		open := OpenGPU(host)
		if n.Path == "/dev/kfd" {
			open = OpenKFD(host, "override")
		}
		return fmt.Errorf("cannot give the task %s: %s, and no private node can be made (%w) — on the LXD host run: %s",
			n.Path, problem, why, open)
	}
	bind(e, n, n.HostPath)
	e.Process.AddGroup(inside)
	return nil
}
