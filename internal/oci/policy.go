package oci

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// overflowGID is the group that the kernel shows for one that has no number in
// the current user namespace (/proc/sys/kernel/overflowgid, unless changed).
const overflowGID = 65534

// liveNode is a device node as it is on the machine now.
type liveNode struct {
	cdiNode
	major, minor uint32
	mode         uint32 // permission bits
	gid          uint32
}

// inspect looks at the node itself and not at what the spec says of it: a
// stale spec must never give a task another device.
func (m machine) inspect(n cdiNode) (liveNode, error) {
	var st unix.Stat_t
	if err := m.lstat(n.hostPath, &st); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return liveNode{}, fmt.Errorf("cannot give the task %s: there is no %s on this machine, though CDI spec %s lists it; "+
				"the unit writes the spec anew at its next hook, and until then the GPU has to come back", n.path, n.hostPath, n.spec)
		}
		return liveNode{}, fmt.Errorf("cannot give the task %s: cannot inspect %s: %w", n.path, n.hostPath, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return liveNode{}, fmt.Errorf("cannot give the task %s: %s is not a character device", n.path, n.hostPath)
	}
	live := liveNode{cdiNode: n, major: unix.Major(st.Rdev), minor: unix.Minor(st.Rdev), mode: st.Mode & 0o777, gid: st.Gid}
	if (n.major != 0 || n.minor != 0) && (n.major != uint64(live.major) || n.minor != uint64(live.minor)) {
		return liveNode{}, fmt.Errorf("cannot give the task %s: CDI spec %s is stale: it says %d:%d for %s, which is %d:%d now; "+
			"the unit writes the spec anew at its next hook, run the task again after that",
			n.path, n.spec, n.major, n.minor, n.hostPath, live.major, live.minor)
	}
	return live, nil
}

// decide says what to change so that a process of any user in the container
// can open the nodes. Reasons are at each branch; runc 1.1.5 and 1.4.0 agree.
func (m machine) decide(e *edits, f facts, nodes []cdiNode, nodesDir string) error {
	dir := clones{path: nodesDir}
	// The wrapper lives so briefly that each growth of a slice counts; folders
	// come after the nodes.
	const more = 8
	e.paths = slices.Grow(e.paths, len(nodes)+more)
	e.mounts = slices.Grow(e.mounts, len(nodes)+more)
	e.rules = slices.Grow(e.rules, len(nodes))
	for _, n := range nodes {
		live, err := m.inspect(n)
		if err != nil {
			return err
		}
		e.paths = append(e.paths, n.path)
		// Needed in every case: neither a mount nor linux.devices opens the
		// device cgroup, and KFD hides each GPU that the cgroup does not allow.
		e.rules = append(e.rules, rule{Allow: true, Type: "c", Major: live.major, Minor: live.minor, Access: "rw"})
		if err := m.place(e, f, live, &dir); err != nil {
			return err
		}
	}
	return nil
}

// place chooses how the node gets into the container.
func (m machine) place(e *edits, f facts, n liveNode, dir *clones) error {
	open := n.mode&0o006 == 0o006
	if open && f.userNS {
		// In a user namespace runc can't make nodes; this one suits as it is.
		e.bind(n, n.hostPath)
		return nil
	}
	clone := ""
	if !open {
		var err error
		if clone, err = dir.clone(m, n); errors.Is(err, errNoNodes) {
			return e.bindWithGroup(f, n, err)
		} else if err != nil {
			return fmt.Errorf("cannot give the task %s: %w", n.path, err)
		}
	}
	if f.userNS {
		// The host's node stays as closed as it is. Its copy is open to all,
		// but stands in a directory that only root can enter.
		e.bind(n, clone)
		return nil
	}
	// runc makes a node of its own, with this mode, in the container's /dev.
	e.devices = append(e.devices, device{Path: n.path, Type: "c", Major: n.major, Minor: n.minor, FileMode: 0o666})
	return nil
}

func (e *edits) bind(n liveNode, source string) {
	e.mounts = append(e.mounts, mount{Destination: n.path, Type: "bind", Source: source, Options: []string{"bind", "rw", "nosuid", "noexec"}})
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
func (e *edits) bindWithGroup(f facts, n liveNode, why error) error {
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
		if n.path == "/dev/kfd" {
			open = OpenKFD(host, "override")
		}
		return fmt.Errorf("cannot give the task %s: %s, and no private node can be made (%w) — on the LXD host run: %s",
			n.path, problem, why, open)
	}
	e.bind(n, n.hostPath)
	e.addGroup(inside)
	return nil
}
