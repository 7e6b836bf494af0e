package amd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// verifiedStamp records that the installation was verified since the machine started.
const verifiedStamp = wellknown.RunDir + "/rocm-verified.stamp"

// toolLimit bounds the answer of a tool. On a hanging GPU a killed tool may not even exit;
// it is abandoned then (host.Exec).
const toolLimit = 20 * time.Second

// smiTools lists AMD's tools for GPUs. The older one is first, because every release of the
// table has it.
var smiTools = []struct{ name, arg string }{{"rocm-smi", "--showid"}, {"amd-smi", "list"}}

// verifyError describes a defect of an installation and its fix.
type verifyError struct{ What, Fix string }

func (e *verifyError) Error() string { return e.What + "; " + e.Fix }

// verify checks once a boot that an installation works: the module, the nodes, and the
// answer of a tool.
type verify struct {
	Release Release
	Driver  bool
	Tools   bool
	Inputs  string
}

// Diff implements plan.Resource.
func (v verify) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	stamp := resource.File{Path: verifiedStamp, Data: []byte(v.Inputs + "\n"), Mode: 0o600}
	have, err := h.ReadFile(stamp.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read whether ROCm was verified: %w", err)
	}
	if err == nil && string(have) == string(stamp.Data) {
		return nil, nil
	}
	return plan.Plan{{Op: "verify ROCm " + v.Release.ROCm, Why: "not verified since the machine started",
		Do: func(ctx context.Context) error {
			if err := v.check(ctx, h); err != nil {
				return err
			}
			return h.WriteFile(stamp.Path, stamp.Data, stamp.Mode)
		}}}, nil
}

func (v verify) check(ctx context.Context, h host.Host) error {
	if v.Driver && !h.Exists(moduleDir) {
		return &verifyError{"the kernel module amdgpu is not loaded",
			"on the unit run: sudo modprobe amdgpu; sudo dmesg | tail"}
	}
	if _, err := h.Node("/dev/kfd"); err != nil {
		return &verifyError{"/dev/kfd is missing", "on the unit run: sudo dmesg | grep -i kfd"}
	}
	nodes, err := h.Glob("/dev/dri/renderD*")
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return &verifyError{"/dev/dri has no renderD*", "on the unit run: sudo dmesg | grep -i amdgpu"}
	}
	if !v.Tools || v.reboots(h) {
		return nil
	}
	return v.runTool(ctx, h)
}

// reboots reports whether the running driver differs from the installed one. Its tools work
// only after the reboot that Decide requests.
func (v verify) reboots(h host.Host) bool {
	runs, err := h.ReadText(moduleDir + "/version")
	return v.Driver && (err != nil || runs != v.Release.DKMSVersion)
}

func (v verify) runTool(ctx context.Context, h host.Host) error {
	for _, t := range smiTools {
		for _, dir := range []string{"/opt/rocm-" + v.Release.ROCm + "/bin/", "/opt/rocm/bin/", "/usr/bin/"} {
			if !h.Exists(dir + t.name) {
				continue
			}
			out, err := h.Run(ctx, host.Command{Argv: []string{dir + t.name, t.arg}, Deadline: toolLimit})
			return toolAnswer(t.name, out, err)
		}
	}
	return &verifyError{"the package rocm-smi-lib has no rocm-smi", "on the unit run: dpkg -L rocm-smi-lib"}
}

func toolAnswer(name string, out []byte, err error) error {
	var command *host.CommandError
	switch {
	case errors.As(err, &command) && command.Timeout > 0:
		return &verifyError{fmt.Sprintf("%s did not answer in %s and was abandoned", name, toolLimit),
			"the GPU or its driver hangs: on the unit run: sudo dmesg | grep -i amdgpu"}
	case errors.As(err, &command) && command.LastLine() != "":
		return &verifyError{name + " failed: " + command.LastLine(), "on the unit run: " + name}
	case err != nil:
		return &verifyError{name + " failed: " + err.Error(), "on the unit run: " + name}
	case !strings.Contains(string(out), "GPU"): // both begin each GPU's lines with it
		return &verifyError{name + " shows no GPU", "on the unit run: " + name}
	}
	return nil
}
