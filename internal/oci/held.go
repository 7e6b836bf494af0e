package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/oci/cmdline"
	"concourse-ci-machine/internal/pool/lease"
)

// held is what a marker keeps of a container's lease, so that exec can enter it
// again: also in a container whose task is over, whose GPUs another may have by
// then. The GPUs are those that the container's device cgroup lets it open, so
// they stay the same whatever the config says later.
type held struct {
	gpus    []string // as lease.Leases has them
	pidFile string   // of create, absolute; "" where runc wrote none
	cgroup  string
	own     bool // the first process is the container's work: one of another engine's
}

func (h held) none() bool { return len(h.gpus) == 0 }

func (h held) appendTo(out []byte) []byte {
	out = rawjson.AppendStrings(append(out, `{"gpus":`...), h.gpus)
	out = rawjson.AppendString(append(out, `,"pid_file":`...), h.pidFile)
	out = rawjson.AppendString(append(out, `,"cgroup":`...), h.cgroup)
	if h.own {
		out = append(out, `,"own":true`...)
	}
	return append(out, '}')
}

func decodeHeld(root rawjson.Value) (h held, err error) {
	v, err := root.Of("lease", rawjson.Object)
	if err != nil || v.None() {
		return h, err
	}
	if h.gpus, err = v.Strings("gpus"); err != nil {
		return h, err
	}
	if h.pidFile, err = v.StringOf("pid_file"); err != nil {
		return h, err
	}
	if h.cgroup, err = v.StringOf("cgroup"); err != nil {
		return h, err
	}
	own, err := v.Of("own", rawjson.Bool)
	h.own = string(own.Raw()) == "true"
	return h, err
}

// call is this very process, which becomes runc.
func (h held) call(id, bundle string) (lease.Call, error) {
	bundle, err := filepath.Abs(bundle)
	return lease.Call{Container: id, Bundle: bundle, PidFile: h.pidFile, Cgroup: h.cgroup, Own: h.own, PID: os.Getpid()}, err
}

// concourseInit is the first process of each container of Concourse's; what uses
// GPUs comes by exec (Concourse, worker/runtime).
const concourseInit = "/tmp/gdn-init"

// holder is all of a lease but its GPUs. A container of another engine is its own first
// process, whatever that is called. Of one of Concourse's the end could not be told then
// from that of a task which came by exec.
func holder(root rawjson.Value, c *cmdline.Call, own bool) (h held, err error) {
	fail := func(err error) (held, error) {
		return held{}, fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	process, err := root.Of("process", rawjson.Object)
	if err != nil {
		return fail(err)
	}
	args, err := process.Strings("args")
	if err != nil {
		return fail(err)
	}
	if h.own = own; !own && (len(args) == 0 || args[0] != concourseInit) {
		return h, fmt.Errorf("cannot lease GPUs to a container whose first process is not Concourse's %s: a lease lasts as long as what comes by exec", concourseInit)
	}
	linux, err := root.Of("linux", rawjson.Object)
	if err != nil {
		return fail(err)
	}
	ends, err := newPIDs(linux)
	if err != nil {
		return fail(err)
	}
	if !ends && own {
		return h, errors.New("cannot lease GPUs to a container that is in the pid namespace of the machine or of another container: its processes could outlive it and use them; " +
			"run it without --pid (Kubernetes: hostPID, shareProcessNamespace)")
	}
	if !ends {
		return h, errors.New("cannot lease GPUs to a container without a new pid namespace: what its task leaves behind could outlive its first process")
	}
	if h.cgroup, err = cgroupName(linux, c.ID); err != nil {
		return fail(err)
	}
	if c.PidFile != "" {
		h.pidFile, err = filepath.Abs(c.PidFile)
	}
	return h, err
}

// newPIDs tells whether the kernel ends all processes of the container with the
// first one: in a pid namespace that is made for it (pid_namespaces(7)).
func newPIDs(linux rawjson.Value) (own bool, err error) {
	namespaces, err := linux.Of("namespaces", rawjson.Array)
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

// cgroupName is the last part of the container's cgroup as runc names it: that
// of cgroupsPath, which is a path or, for systemd, slice:prefix:name; without
// one, the container's ID (runc, libcontainer/specconv).
func cgroupName(linux rawjson.Value, id string) (string, error) {
	path, err := linux.StringOf("cgroupsPath")
	if err != nil || path == "" {
		return id, err
	}
	path = filepath.Clean(path)
	return path[strings.LastIndexAny(path, "/:")+1:], nil
}
