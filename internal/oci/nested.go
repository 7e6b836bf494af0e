package oci

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/agreed"
	"concourse-ci-machine/internal/oci/cdispec"
	"concourse-ci-machine/internal/oci/cmdline"
	"concourse-ci-machine/internal/oci/edits"
	"concourse-ci-machine/internal/oci/rawjson"
	"concourse-ci-machine/internal/oci/visible"
)

// nestedSpec is the file of a privileged task's bundle that describes its GPUs. It goes
// with the bundle, whatever ends the container.
const nestedSpec = "amd-cdi.json"

// describe has Docker and Podman inside a privileged task find the AMD GPUs that the task
// got, and no others, where they look for a machine's: the unit's own description would
// name those of other tasks, an image's those of another machine. A task without
// privileges can't start an engine, so it pays nothing.
func (w *wrapper) describe(e *edits.Edits, c *cmdline.Call, b bundle, f facts, specs []*cdispec.Spec, devices []cdispec.Device) error {
	if !f.task || f.userNS {
		return nil
	}
	amd := slices.DeleteFunc(slices.Clone(devices), func(d cdispec.Device) bool { return d.Spec.Kind != agreed.AMDKind })
	if len(amd) == 0 {
		return nil
	}
	text, err := nestedText(specs, amd)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(c.Bundle)
	if err == nil {
		err = b.make(nestedSpec, text)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s of the task: %w", nestedSpec, err)
	}
	e.Mounts = append(e.Mounts, edits.Mount{Destination: agreed.AMDSpec, Type: "bind", Source: filepath.Join(dir, nestedSpec),
		Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}})
	return nil
}

// nestedText is a CDI spec of version 0.5.0, which podman 4 reads: one with annotations it
// does not. Indexes count the task's GPUs, as ROCm does there, so that who leases one
// GPU of eight can ask for 0; the other names stay with their GPU.
func nestedText(specs []*cdispec.Spec, devices []cdispec.Device) ([]byte, error) {
	gpus, err := visible.Single(specs, devices)
	if err != nil {
		return nil, err
	}
	out := []byte(`{"cdiVersion":"0.5.0","kind":"` + agreed.AMDKind + `","devices":[`)
	for i, g := range gpus {
		own, err := cdispec.Merge([]cdispec.Device{g.Device})
		if err != nil {
			return nil, err
		}
		for _, name := range append([]string{strconv.Itoa(i)}, g.IDs...) {
			out = append(appendNested(out, name, own.Nodes), ',')
		}
	}
	all, err := cdispec.Merge(devices)
	return append(appendNested(out, cdispec.All, all.Nodes), "]}\n"...), err
}

// appendNested writes a device with its nodes as the task has them. Their access is what
// the task's control group allows, as that of a container in it can't be more (cgroup v1
// refuses the rule); their mode is that of the task's, for users of every container.
func appendNested(out []byte, name string, nodes []cdispec.Node) []byte {
	out = rawjson.AppendString(append(out, `{"name":`...), name)
	out = append(out, `,"containerEdits":{"deviceNodes":[`...)
	for i, n := range nodes {
		if i > 0 {
			out = append(out, ',')
		}
		out = rawjson.AppendString(append(out, `{"path":`...), n.Path)
		if n.Major != 0 || n.Minor != 0 { // else an engine asks the node
			out = strconv.AppendUint(append(out, `,"type":"c","major":`...), n.Major, 10)
			out = strconv.AppendUint(append(out, `,"minor":`...), n.Minor, 10)
		}
		out = strconv.AppendUint(append(out, `,"fileMode":`...), 0o666, 10)
		out = append(out, `,"permissions":"rw"}`...)
	}
	return append(out, "]}}"...)
}

// make makes a file of the bundle anew that a container's users may read.
func (b bundle) make(name string, data []byte) error {
	if err := unix.Unlinkat(b.fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	fd, err := unix.Openat(b.fd, name, newFile, 0o644)
	if err != nil {
		return err
	}
	if err = unix.Fchmod(fd, 0o644); err == nil { // past the umask
		err = writeAll(fd, data)
	}
	return cmp.Or(err, unix.Close(fd))
}
