package amd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

const purgeLimit = 30 * time.Minute

// ResetPlan takes all of AMD's software off a machine, whoever brought it, so
// that the next hook begins from nothing: packages, repositories, pins and
// modules. In a container the kernel's part is the host's and stays. It is
// destructive; the action reset-rocm shows it, and does it only when told to.
func ResetPlan(f DriverFacts) []plan.Resource {
	const why = "reset-rocm takes all of AMD's software away"
	var all []plan.Resource
	if names := resetPackages(f); len(names) > 0 {
		all = append(all, purge{names: names, why: why})
	}
	for _, s := range f.Sources {
		all = append(all, dropEntry{file: s.File, uri: s.URI, why: why})
	}
	for _, p := range f.Pins {
		if strings.HasPrefix(p.File, "/etc/apt/preferences.d/") {
			all = append(all, resource.Absent{Path: p.File, Why: why})
		}
	}
	all = append(all, resource.AllAbsent(why, pinFile, installFile, verifiedStamp, RebootFile, attemptPath)...)
	if f.Where.Contained() {
		return all
	}
	return append(all, orphan{kernel: f.Kernel, why: why})
}

// resetPackages are AMD's packages, the driver's last: what needs them goes
// before. A container has no use for a driver's and may lose it too.
func resetPackages(f DriverFacts) (names []string) {
	for _, p := range f.Packages {
		if p.Name != ToolkitPackage { // option amd-container-toolkit decides on it
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// purge removes packages with their configuration. Those of them that are half
// installed are finished or given up first: apt refuses to work beside them.
type purge struct {
	names []string
	why   string
}

// Diff implements plan.Resource.
func (p purge) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	var there, stuck []string
	for _, name := range p.names {
		st, err := resource.ReadPackage(h.Root, name)
		if err != nil {
			return nil, err
		}
		if st.Installed() || st.Broken() {
			there = append(there, name)
		}
		if st.Reinst || st.Status == "half-installed" {
			stuck = append(stuck, name)
		}
	}
	var steps plan.Plan
	env := []string{"DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l", "LC_ALL=C.UTF-8"}
	run := func(argv ...string) func(context.Context, host.Host) error {
		return func(ctx context.Context, h host.Host) error {
			_, err := h.Run(ctx, host.Command{Argv: argv, Env: env, Deadline: purgeLimit})
			return err
		}
	}
	if len(stuck) > 0 {
		do := run(append([]string{"dpkg", "--remove", "--force-remove-reinstreq", "--force-depends"}, stuck...)...)
		steps = append(steps, plan.Step{Op: "remove " + strings.Join(stuck, ", "), Why: "half installed: apt can't remove it",
			Do: func(ctx context.Context) error { return do(ctx, h) }})
	}
	if len(there) > 0 {
		do := run(append([]string{"apt-get", "purge", "--yes", "--allow-change-held-packages",
			"-o", "DPkg::Lock::Timeout=600"}, there...)...)
		steps = append(steps, plan.Step{Op: "purge " + strings.Join(there, ", "), Why: p.why,
			Do: func(ctx context.Context) error { return do(ctx, h) }})
	}
	return steps, nil
}

// dropEntry takes a repository out of apt's sources. A file that names nothing
// else goes, in a .list the other lines stay, and a .sources with others stays
// whole: its stanzas are the operator's to split.
type dropEntry struct{ file, uri, why string }

// Diff implements plan.Resource.
func (d dropEntry) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	if !h.Exists(d.file) {
		return nil, nil
	}
	data, err := h.ReadFile(d.file)
	if err != nil {
		return nil, fmt.Errorf("cannot compare %s: %w", d.file, err)
	}
	var keep []string
	named, others := false, false
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && !strings.HasPrefix(words[0], "#") && slices.ContainsFunc(words, func(w string) bool {
			return strings.TrimRight(w, "/") == strings.TrimRight(d.uri, "/")
		}):
			named = true
			continue
		case len(words) > 0 && (words[0] == "deb" || words[0] == "deb-src" || strings.EqualFold(words[0], "URIs:")):
			others = true
		}
		keep = append(keep, line)
	}
	switch {
	case !named || others && strings.HasSuffix(d.file, ".sources"):
		return nil, nil
	case !others:
		return resource.Absent{Path: d.file, Why: d.why}.Diff(ctx, h)
	}
	st, err := h.Stat(d.file)
	if err != nil {
		return nil, err
	}
	return plan.Plan{{Op: "take " + d.uri + " out of " + d.file, Why: d.why, Do: func(context.Context) error {
		return h.WriteFile(d.file, []byte(strings.Join(keep, "")), st.Mode().Perm())
	}}}, nil
}

// orphan is a module that DKMS built and no package took along when it went.
type orphan struct{ kernel, why string }

// Diff implements plan.Resource. modprobe's index names the module for as long
// as it was not brought in line: a run that died before that is made good.
func (o orphan) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	dir := "/lib/modules/" + o.kernel
	files, err := h.Glob(dir + "/updates/dkms/amdgpu.ko*")
	if err != nil {
		return nil, err
	}
	index, err := h.ReadFile(dir + "/modules.dep")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read modprobe's index: %w", err)
	}
	if len(files) == 0 && !strings.Contains(string(index), "updates/dkms/amdgpu.ko") {
		return nil, nil
	}
	return plan.Plan{{Op: "remove what is left of DKMS's amdgpu for kernel " + o.kernel, Why: o.why, Do: func(ctx context.Context) error {
		for _, f := range files {
			if err := h.Remove(f); err != nil {
				return err
			}
		}
		_, err := h.Run(ctx, host.Command{Argv: []string{"depmod", o.kernel}, Deadline: loadLimit})
		return err
	}}}, nil
}
