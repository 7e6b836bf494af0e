package amd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/base/wellknown"
)

// Files that concern the kernel module amdgpu.
const (
	loadFile   = "/etc/modules-load.d/concourse-amdgpu.conf" // modules-load.d(5)
	paramsFile = "/etc/modprobe.d/concourse-amdgpu.conf"     // modprobe.d(5)
	moduleDir  = "/sys/module/amdgpu"

	mark = "# Written by the charm concourse-ci-machine; changes are overwritten.\n"

	initramfsTool = "/usr/sbin/update-initramfs"
	loadLimit     = 2 * time.Minute // a module that brings up many GPUs takes its time
	bootLimit     = 5 * time.Minute
)

// applied is a file of the charm's with commands that make it count. They run
// once for each content: a stamp, written when they succeeded, says for which.
// It lasts over reboots, after which the file counts by itself. A crash between
// the two leaves no stamp, and the commands run again.
type applied struct {
	file  resource.File
	gone  string // why the file is not wanted; "" where it is
	stamp string // file name below wellknown.StateDir
	op    string // "reload udev's rules"
	then  []host.Command
}

// Diff implements plan.Resource. A file in its place that is not the charm's
// stays as it is.
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
	if a.gone != "" {
		p, err = resource.Absent{Path: a.file.Path, Why: a.gone}.Diff(ctx, h)
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
	if a.gone != "" {
		why = a.file.Path + " is gone"
	}
	return append(p, plan.Step{Op: a.op, Why: why, Tolerate: true, Do: func(ctx context.Context) error {
		for _, c := range a.then {
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

// moduleParams are the module's options, which count when it is loaded the next
// time. Where the initial RAM disk may load it, that is made anew.
func moduleParams(params, kernel string, initramfs bool) plan.Resource {
	a := applied{file: resource.File{Path: paramsFile, Mode: 0o644}, stamp: "amdgpu-params", op: "note the options of amdgpu"}
	if initramfs {
		a.op = "make the initial RAM disk anew"
		a.then = []host.Command{{Argv: []string{"update-initramfs", "-u", "-k", kernel}, Deadline: bootLimit}}
	}
	if params == "" {
		a.gone = "amdgpu-module-params is empty"
		return a
	}
	a.file.Data = []byte(mark + "options amdgpu " + params + "\n")
	return a
}

// moduleAtBoot has the module loaded at each boot.
func moduleAtBoot() plan.Resource {
	return resource.File{Path: loadFile, Data: []byte(mark + "amdgpu\n"), Mode: 0o644}
}

// module is the kernel module, loaded.
type module struct{}

// Diff implements plan.Resource.
func (module) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if h.Exists(moduleDir) {
		return nil, nil
	}
	return plan.Plan{{Op: "load the kernel module amdgpu", Why: "not loaded", Tolerate: true, Do: func(ctx context.Context) error {
		_, err := h.Run(ctx, host.Command{Argv: []string{"modprobe", "amdgpu"}, Deadline: loadLimit})
		return err
	}}}, nil
}
