// Package healthcheck runs gpu-proof, the operator's program that shows whether a GPU
// computes, in a container with this GPU alone, and writes down how that ended. It
// decides on no GPU, which quarantine does, and gives the program nothing that a task
// could not have: no network, no rights, no file that is root's alone.
package healthcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/cdi"
	"concourse-ci-machine/internal/oci"
)

const (
	// Dir has the locks, the results and the containers' bundles.
	Dir = "/run/concourse-gpu-proof"
	// OutputDir has the last output of each GPU's proof, which outlives a reboot: a GPU
	// that fails its proof is often met by one.
	OutputDir = wellknown.StateDir + "/gpu-proof"
)

// Job is a proof to run.
type Job struct {
	Name    string // see gpu.Slot
	Index   int    // the number that gpu-device-ids takes
	PCI     string
	Command string
	Runc    string              // the release's own
	Nodes   []*specs.DeviceNode // of this GPU, see cdi.Nodes
	// Recursive is machine.Machine.RecursiveReadonly.
	Recursive bool
}

// Prepare finds what a proof needs on the machine. The error is why it can't be run now,
// which is no word on the GPU.
func Prepare(r host.Root, name, command string) (j Job, err error) {
	if err := checkProgram(r, command); err != nil {
		return j, err
	}
	data, err := r.ReadFile(oci.DefaultConfig)
	var wrapper oci.Config
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return j, fmt.Errorf("there is no %s: tasks get no GPU on this unit yet; see its status", oci.DefaultConfig)
	case err != nil:
		return j, err
	case json.Unmarshal(data, &wrapper) != nil:
		return j, fmt.Errorf("cannot decode %s; the next hook writes it anew", oci.DefaultConfig)
	case !r.Exists(wrapper.Runtime):
		return j, fmt.Errorf("there is no %s: Concourse is not installed yet; see the unit's status", wrapper.Runtime)
	}
	inv, err := gpu.Discover(r)
	if err != nil {
		return j, err
	}
	for i, g := range inv.Of(gpu.AMD) {
		if gpu.Slot(g.PCI, g.Partition) != name {
			continue
		}
		j = Job{Name: name, Index: i, PCI: g.PCI, Command: command, Runc: r.Path(wrapper.Runtime)}
		j.Nodes, err = cdi.Nodes(r, i, g)
		return j, err
	}
	return j, fmt.Errorf("GPU %s has no node that this unit may use; dispatch gpu list says why", name)
}

// check looks at what root is to start as somebody else: the file, and the folders that
// it is in, are root's, and nobody else can put another file there.
func checkProgram(r host.Root, command string) error {
	for p := command; ; p = path.Dir(p) {
		st, err := r.Lstat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("there is no %s; put it there, or take it out of the option gpu-proof", p)
		case err != nil:
			return fmt.Errorf("cannot look at %s: %w", p, err)
		case st.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a link; name what it leads to in gpu-proof", p)
		case p == command && !st.Mode().IsRegular():
			return fmt.Errorf("%s is no file", p)
		case p == command && st.Mode().Perm()&0o001 == 0:
			return fmt.Errorf("%s can't be executed by everybody; chmod 755 it", p)
		case p != command && !st.IsDir():
			return fmt.Errorf("%s is no folder", p)
		case p != command && st.Mode().Perm()&0o001 == 0:
			return fmt.Errorf("%s can't be entered by everybody; chmod 755 it", p)
		}
		if err := host.OnlyRoots(p, st); err != nil || p == "/" {
			return err
		}
	}
}

// id is the container's and its folder's name.
func (j Job) id() string { return "concourse-gpu-proof-" + strings.ReplaceAll(j.Name, ":", "-") }
