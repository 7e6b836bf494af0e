package amd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/templates"
)

// Files of the kernel module amdgpu.
const (
	loadFile   = "/etc/modules-load.d/concourse-amdgpu.conf" // modules-load.d(5)
	paramsFile = "/etc/modprobe.d/concourse-amdgpu.conf"     // modprobe.d(5)
	moduleDir  = "/sys/module/amdgpu"

	mark = "# Written by the charm concourse-ci-machine; changes are overwritten.\n"

	initramfsTool = "/usr/sbin/update-initramfs"
	loadLimit     = 2 * time.Minute // a module with many GPUs loads slowly
	bootLimit     = 5 * time.Minute
)

// applied is a file of the charm with commands that apply it. They run once for each
// content: a stamp records the applied content after they succeeded. The stamp survives
// reboots, which apply the file too. A crash before the stamp is written runs the commands
// again.
type applied struct {
	file      resource.File
	absentWhy string // why the file must be absent; "" if it is wanted
	stamp     string // file name below wellknown.StateDir
	op        string // "reload udev's rules"
	commands  []host.Command
}

// Diff implements plan.Resource. A foreign file at the path stays as it is.
func (a applied) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	have, err := h.ReadFile(a.file.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot compare %s: %w", a.file.Path, err)
	}
	if err == nil && !strings.HasPrefix(string(have), mark) {
		return nil, nil
	}
	var p plan.Plan
	want := ""
	if a.absentWhy != "" {
		p, err = resource.Absent{Path: a.file.Path, Why: a.absentWhy}.Diff(ctx, h)
	} else {
		p, err = a.file.Diff(ctx, h)
		want = fmt.Sprintf("%x\n", sha256.Sum256(a.file.Data))
	}
	if err != nil {
		return nil, err
	}
	stamp := wellknown.StateDir + "/" + a.stamp + ".stamp"
	was, err := h.ReadFile(stamp)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot compare %s: %w", stamp, err)
	}
	if len(p) == 0 && string(was) == want {
		return nil, nil
	}
	why := a.file.Path + " changed"
	if a.absentWhy != "" {
		why = a.file.Path + " is missing"
	}
	return append(p, plan.Step{Op: a.op, Why: why, Tolerate: true, Do: func(ctx context.Context) error {
		for _, c := range a.commands {
			if _, err := h.Run(ctx, c); err != nil {
				return err
			}
		}
		if want == "" {
			return h.Remove(stamp)
		}
		return h.WriteFile(stamp, []byte(want), 0o600)
	}}), nil
}

// moduleParams returns the module's options, which apply at the next load. The initial RAM
// disk is rebuilt if it may load the module.
func moduleParams(params, kernel string, initramfs bool) plan.Resource {
	a := applied{file: resource.File{Path: paramsFile, Mode: 0o644}, stamp: "amdgpu-params",
		op: "note the options of amdgpu"}
	if initramfs {
		a.op = "make the initial RAM disk again"
		a.commands = []host.Command{{Argv: []string{"update-initramfs", "-u", "-k", kernel}, Deadline: bootLimit}}
	}
	if params == "" {
		a.absentWhy = "amdgpu-module-params is empty"
		return a
	}
	a.file.Data = []byte(mark + "options amdgpu " + params + "\n")
	return a
}

// moduleAtBoot loads the module at each boot.
func moduleAtBoot() plan.Resource {
	return resource.File{Path: loadFile, Data: []byte(mark + "amdgpu\n"), Mode: 0o644}
}

// module is the loaded kernel module.
type module struct{}

// Diff implements plan.Resource.
func (module) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if h.Exists(moduleDir) {
		return nil, nil
	}
	return plan.Plan{{Op: "load the kernel module amdgpu", Why: "not loaded", Tolerate: true,
		Do: func(ctx context.Context) error {
			_, err := h.Run(ctx, host.Command{Argv: []string{"modprobe", "amdgpu"}, Deadline: loadLimit})
			return err
		}}}, nil
}

// UdevRules is the file of the rules for the nodes of AMD GPUs, named as in AMD's
// documentation.
const UdevRules = "/etc/udev/rules.d/70-amdgpu.rules"

const udevLimit = time.Minute

// udevRules returns the rules and the commands that apply them.
func udevRules() (plan.Resource, error) {
	data, err := templates.Render("70-amdgpu.rules", nil)
	return udev(resource.File{Path: UdevRules, Data: data, Mode: 0o644}, ""), err
}

// udev is a file of rules. A change is applied to the present nodes, and waited for, so
// that the same hook sees the result.
func udev(f resource.File, absentWhy string) applied {
	run := func(argv ...string) host.Command {
		return host.Command{Argv: append([]string{"udevadm"}, argv...), Deadline: udevLimit}
	}
	return applied{file: f, absentWhy: absentWhy, stamp: "udev-rules", op: "reload udev's rules",
		commands: []host.Command{
			run("control", "--reload-rules"),
			run("trigger", "--action=change", "--subsystem-match=drm", "--subsystem-match=kfd"),
			run("settle", "--timeout=30"),
		}}
}
