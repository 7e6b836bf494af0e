// Package healthcheck runs gpu-health-check, the operator's health check for a GPU. The program
// runs in a container with this GPU alone, and the result is written to a file. Decisions
// on GPUs are made in package quarantine. The program gets no more than a task could have:
// no network, no privileges, no file that only root can read.
package healthcheck

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/wrapperfile"
)

const (
	// Dir has the locks, the results and the containers' bundles.
	Dir = wellknown.RunDir + "/gpu-health-check"
	// OutputDir has the last output of each GPU's health check. It survives a reboot, which
	// often follows a failed health check.
	OutputDir = wellknown.StateDir + "/gpu-health-check"
)

// Job describes a health check to run.
type Job struct {
	gpu.Slot
	Command string
	Runc    string              // runc or crun
	Devices []*specs.DeviceNode // the nodes of this GPU, see cdi.Nodes
	// Recursive is machine.Machine.RecursiveReadonly.
	Recursive bool
}

// Runtime returns the release's own runc on a unit.
func Runtime(r host.Root) (string, error) {
	wrapper, err := wrapperfile.File.Read(r)
	switch {
	case errors.Is(err, statefile.ErrDamaged):
		return "", fmt.Errorf("cannot decode %s; the next hook writes it again", oci.DefaultConfig)
	case err != nil:
		return "", err
	case !r.Exists(oci.DefaultConfig):
		return "", fmt.Errorf("%s is missing: tasks get no GPU on this unit yet; see its status", oci.DefaultConfig)
	case !r.Exists(wrapper.Runtime):
		return "", fmt.Errorf("%s is missing: Concourse is not installed yet; see the unit's status", wrapper.Runtime)
	}
	return wrapper.Runtime, nil
}

// Prepare finds what a health check needs on the machine, beside the path of runc. The error is
// the reason why it cannot run now, and not a fault of the GPU.
func Prepare(r host.Root, runtime, name, command string) (j Job, err error) {
	if err := checkProgram(r, command); err != nil {
		return j, err
	}
	inv, err := gpu.Discover(r)
	if err != nil {
		return j, err
	}
	if g := inv.Find(name); g != nil && g.Vendor.Has(gpu.Quarantine) {
		j = Job{Slot: g.Slot, Command: command, Runc: r.Path(runtime)}
		j.Devices, err = cdi.Nodes(r, g.Index, *g)
		return j, err
	}
	return j, fmt.Errorf("GPU %s has no node that can be used; the command gpu list shows why", name)
}

// checkProgram checks the program before root starts it as another user. The file and its
// folders must belong to root, so that no other user can replace the program.
func checkProgram(r host.Root, command string) error {
	for p := command; ; p = path.Dir(p) {
		st, err := r.Lstat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is missing; add it, or remove it from the option gpu-health-check", p)
		case err != nil:
			return fmt.Errorf("cannot look at %s: %w", p, err)
		case st.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a link; name its target in gpu-health-check", p)
		case p == command && !st.Mode().IsRegular():
			return fmt.Errorf("%s is not a file", p)
		case p == command && st.Mode().Perm()&0o001 == 0:
			return fmt.Errorf("%s can't be executed by everybody; chmod 755 it", p)
		case p != command && !st.IsDir():
			return fmt.Errorf("%s is not a folder", p)
		case p != command && st.Mode().Perm()&0o001 == 0:
			return fmt.Errorf("%s is closed to other users; chmod 755 it", p)
		}
		if err := host.OnlyRoots(p, st); err != nil || p == "/" {
			return err
		}
	}
}

// id returns the name of the container and of its folder.
func (j Job) id() string {
	return "concourse-gpu-health-check-" + strings.ReplaceAll(j.Address(), ":", "-")
}
