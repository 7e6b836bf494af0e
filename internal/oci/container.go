package oci

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// facts holds the parts of a container's config.json that the wrapper uses.
type facts struct {
	engineFacts
	task    bool // it has the work folder of a Concourse task, see isTask
	step    bool // it has a folder of a step of a build: of a task, get or put
	userNS  bool // it gets a separate user namespace
	gidMaps []idMap
	uidMaps []idMap
	env     []string     // of its first process
	mounts  []mountPoint // before the wrapper adds any
}

// mountPoint holds the cleaned path of a mount and the source that is mounted there.
type mountPoint struct{ destination, source string }

// idMap holds one row of linux.uidMappings or gidMappings. It has 64 bits, so that sums cannot
// overflow.
type idMap struct{ containerID, hostID, size uint64 }

func readFacts(root rawjson.Value) (f facts, err error) {
	if root.Kind() != rawjson.Object {
		return f, fmt.Errorf("it is %s, not an object", root.Kind())
	}
	mounts, err := root.Member("mounts", rawjson.Array)
	if err != nil {
		return f, err
	}
	f.mounts = make([]mountPoint, 0, mounts.Len())
	for m := range mounts.Elements() {
		destination, source, err := readMount(m)
		if err != nil {
			return f, err
		}
		f.mounts = append(f.mounts, mountPoint{destination, source})
		f.task, f.step = f.task || isTask(destination), f.step || strings.HasPrefix(destination, taskFolders)
	}
	process, err := root.Member("process", rawjson.Object)
	if err != nil {
		return f, err
	}
	if f.env, err = process.Strings("env"); err != nil {
		return f, err
	}
	if err := f.readEngine(root, process); err != nil {
		return f, err
	}
	linux, err := root.Member("linux", rawjson.Object)
	if err != nil {
		return f, err
	}
	namespaces, err := linux.Member("namespaces", rawjson.Array)
	if err != nil {
		return f, err
	}
	for n := range namespaces.Elements() {
		kind, err := n.StringOf("type")
		if err != nil {
			return f, err
		}
		f.userNS = f.userNS || kind == "user"
	}
	if f.uidMaps, err = readMaps(linux, "uidMappings"); err == nil {
		f.gidMaps, err = readMaps(linux, "gidMappings")
	}
	return f, err
}

func readMount(m rawjson.Value) (destination, source string, err error) {
	if destination, err = m.StringOf("destination"); err != nil {
		return "", "", err
	}
	source, err = m.StringOf("source")
	return filepath.Clean(destination), source, err
}

func readMaps(linux rawjson.Value, key string) (maps []idMap, err error) {
	rows, err := linux.Member(key, rawjson.Array)
	if err != nil {
		return nil, err
	}
	for row := range rows.Elements() {
		var m idMap
		for _, field := range []struct {
			key string
			to  *uint64
		}{{"containerID", &m.containerID}, {"hostID", &m.hostID}, {"size", &m.size}} {
			if *field.to, err = row.NumberOf(field.key, 1<<32-1); err != nil {
				return nil, err
			}
		}
		maps = append(maps, m)
	}
	return maps, nil
}

// A task's work folder has taskDigits hexadecimal digits below taskFolders.
const (
	taskFolders = "/tmp/build/"
	taskDigits  = 8
)

// isTask reports whether a mount's destination is the work folder of a Concourse task:
// /tmp/build/<8 hex digits> or a path below it. Gets have /tmp/build/get, puts have
// /tmp/build/put, and checks have no mount there. Nothing else in config.json separates
// tasks from them (Concourse, atc/exec and worker/runtime).
func isTask(destination string) bool {
	rest, ok := strings.CutPrefix(destination, taskFolders)
	if !ok {
		return false
	}
	dir, _, _ := strings.Cut(rest, "/")
	return len(dir) == taskDigits && strings.Trim(dir, "0123456789abcdef") == ""
}

// mountAt returns the source that the container has at a path. If several are mounted
// there, the last one is used.
func (f facts) mountAt(path string) (source string, there bool) {
	for i := len(f.mounts) - 1; i >= 0; i-- {
		if f.mounts[i].destination == path {
			return f.mounts[i].source, true
		}
	}
	return "", false
}

// containerGID maps a group of the host to its number inside the container.
func (f facts) containerGID(gid uint32) (uint32, bool) {
	if !f.userNS {
		return gid, true
	}
	for _, m := range f.gidMaps {
		if g := uint64(gid); g >= m.hostID && g-m.hostID < m.size {
			return uint32(m.containerID + g - m.hostID), true
		}
	}
	return 0, false
}

// stepHash identifies the pipeline step of a container, and is "" if it is not known.
// Reruns of a step have equal hashes, and other steps mostly have other ones.
//
// The hash covers the names of environment variables, which come from the image and the
// step's params, and the mount destinations, which Concourse names after the step and its
// inputs. It covers no values, because params can be secrets. The author of a pipeline can
// produce any hash, so nothing that could hurt other teams depends on it.
func stepHash(root rawjson.Value) string {
	process, err := root.Member("process", rawjson.Object)
	if err != nil {
		return ""
	}
	env, err := process.Strings("env")
	if err != nil {
		return ""
	}
	mounts, err := root.Member("mounts", rawjson.Array)
	if err != nil {
		return ""
	}
	h := fnv.New64a()
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		_, _ = h.Write([]byte(name + "\n")) // it never fails
	}
	for m := range mounts.Elements() {
		if m.Kind() != rawjson.Object {
			return ""
		}
		destination, err := m.StringOf("destination")
		if err != nil {
			return ""
		}
		_, _ = h.Write([]byte(destination + "\n"))
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// heldLease holds the part of a marker that lets exec enter a container's lease again, even
// after the container's task has ended and another container may have the GPUs. The GPUs
// are those that the container's device cgroup opens, so later changes of the config do not
// change them.
type heldLease struct {
	gpus       []string // as in lease.Leases
	pidFile    string   // of create, absolute; "" if runc wrote none
	cgroup     string
	ownProcess bool   // the first process is the work: a container of another engine
	image      string // see imageDigest
}

func (h *heldLease) setGPUs(s *settings, gpus []int) {
	h.gpus = make([]string, len(gpus))
	for i, g := range gpus {
		h.gpus[i] = s.GPUs[g].Name
	}
}

func (h heldLease) empty() bool { return len(h.gpus) == 0 }

// members declares the format of the lease in a marker.
func (h *heldLease) members(c *rawjson.Codec) {
	c.Strings("gpus", &h.gpus)
	c.String("pid_file", &h.pidFile)
	c.String("cgroup", &h.cgroup)
	c.OptionalBool("own", &h.ownProcess)
	c.OptionalString("image", &h.image)
}

// call returns the lease call of this process, which becomes runc.
func (h heldLease) call(id, bundle string) (lease.Call, error) {
	bundle, err := filepath.Abs(bundle)
	return lease.Call{Container: id, Bundle: bundle, PidFile: h.pidFile, Cgroup: h.cgroup, OwnProcess: h.ownProcess,
		PID: os.Getpid()}, err
}

// concourseInit is the first process of every Concourse container. Processes that use GPUs
// come by exec (Concourse, worker/runtime).
const concourseInit = "/tmp/gdn-init"

// newHeldLease returns a lease without its GPUs. In a container of another engine the first
// process does the work, whatever its name. A Concourse container must have concourseInit,
// because otherwise its end and the end of a task that came by exec look the same.
func newHeldLease(root rawjson.Value, c *cmdline.Call, ownProcess bool) (h heldLease, err error) {
	fail := func(err error) (heldLease, error) {
		return heldLease{}, fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	process, err := root.Member("process", rawjson.Object)
	if err != nil {
		return fail(err)
	}
	args, err := process.Strings("args")
	if err != nil {
		return fail(err)
	}
	if h.ownProcess = ownProcess; !ownProcess && (len(args) == 0 || args[0] != concourseInit) {
		return h, fmt.Errorf("cannot lease GPUs to a container with another first process than Concourse's %s: a "+
			"lease lasts as long as what comes by exec", concourseInit)
	}
	linux, err := root.Member("linux", rawjson.Object)
	if err != nil {
		return fail(err)
	}
	ends, err := ownPIDNamespace(linux)
	if err != nil {
		return fail(err)
	}
	if !ends && ownProcess {
		return h, errors.New("cannot lease GPUs to a container that is in the pid namespace of the machine or " +
			"of another container: its processes could outlive it and use them; " +
			"run it without --pid (Kubernetes: hostPID, shareProcessNamespace)")
	}
	if !ends {
		return h, errors.New("cannot lease GPUs to a container without a new pid namespace: what its task " +
			"leaves behind could outlive its first process")
	}
	if h.cgroup, err = cgroupName(linux, c.ID); err != nil {
		return fail(err)
	}
	if c.PidFile != "" {
		h.pidFile, err = filepath.Abs(c.PidFile)
	}
	return h, err
}

// ownPIDNamespace reports whether the kernel ends all processes of the container with the
// first one, which is so in a new pid namespace (pid_namespaces(7)).
func ownPIDNamespace(linux rawjson.Value) (own bool, err error) {
	namespaces, err := linux.Member("namespaces", rawjson.Array)
	if err != nil {
		return false, err
	}
	for n := range namespaces.Elements() {
		kind, err := n.StringOf("type")
		if err != nil {
			return false, err
		}
		path, err := n.StringOf("path")
		if err != nil {
			return false, err
		}
		own = own || kind == "pid" && path == ""
	}
	return own, nil
}

// cgroupName returns the last part of the container's cgroup as runc names it (runc,
// libcontainer/specconv). It comes from cgroupsPath, which is a path or, for systemd,
// slice:prefix:name. Without cgroupsPath it is the container's ID.
func cgroupName(linux rawjson.Value, id string) (string, error) {
	path, err := linux.StringOf("cgroupsPath")
	if err != nil || path == "" {
		return id, err
	}
	path = filepath.Clean(path)
	return path[strings.LastIndexAny(path, "/:")+1:], nil
}
