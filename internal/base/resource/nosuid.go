package resource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// Nosuid disables set-user-ID programs and device nodes below a folder on this machine.
// Mounts in it get nosuid and nodev. A folder that is part of a larger file system is first
// mounted on itself. The options last until the next boot, and no mount is removed.
type Nosuid struct {
	Dir string
	Why string
}

// Diff implements plan.Resource. A failure is tolerated, because AppArmor may forbid mounts
// in a container.
func (n Nosuid) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	mounts, err := readMounts(h.Root)
	if err != nil || !h.Exists(n.Dir) {
		return nil, err
	}
	var p plan.Plan
	step := func(op string, commands ...[]string) {
		p = append(p, plan.Step{Op: op, Why: n.Why, Tolerate: true, Do: func(ctx context.Context) error {
			for _, argv := range commands {
				if _, err := h.Run(ctx, host.Command{Argv: argv}); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	below := mounts.below(n.Dir)
	mount := mounts.mountOf(n.Dir)
	switch {
	case !mount.honours():
	case mount.Mountpoint == n.Dir:
		step("remount "+n.Dir+" nosuid,nodev", remount(n.Dir))
	case len(below) == 0: // otherwise those would be hidden
		step("mount "+n.Dir+" on itself, nosuid,nodev", []string{"mount", "--bind", n.Dir, n.Dir}, remount(n.Dir))
	}
	for _, m := range below {
		if m.honours() && m.local() {
			step("remount "+m.Mountpoint+" nosuid,nodev", remount(m.Mountpoint))
		}
	}
	return p, nil
}

// remount adds to the options of a mount, which mount(8) reads in mountinfo.
func remount(dir string) []string {
	return []string{"mount", "-o", "remount,bind,nosuid,nodev", dir}
}

// HonoursSetuid returns the mount that makes set-user-ID programs or device nodes in a
// folder effective on this machine. It returns "" if no mount does or if the mounts are
// unknown.
func HonoursSetuid(r host.Root, dir string) (string, error) {
	mounts, err := readMounts(r)
	if err != nil || len(mounts) == 0 {
		return "", err
	}
	for _, m := range append(mountPoints{mounts.mountOf(dir)}, mounts.below(dir)...) {
		if m.honours() {
			return m.Mountpoint, nil
		}
	}
	return "", nil
}

// DiskOf returns the source of the mount that contains a folder, or "" if unknown.
func DiskOf(r host.Root, dir string) string {
	mounts, err := readMounts(r)
	if err != nil {
		return ""
	}
	return mounts.mountOf(dir).Source
}

// mountPoint represents a line of /proc/self/mountinfo (proc(5)).
type mountPoint mountinfo.Info

// has reports whether the mount, not its file system, has an option.
func (m mountPoint) has(option string) bool {
	return slices.Contains(strings.Split(m.Options, ","), option)
}

func (m mountPoint) honours() bool {
	return m.Mountpoint != "" && (!m.has("nosuid") || !m.has("nodev"))
}

// local reports whether the mount needs no server. A dead server would block the mount
// command.
func (m mountPoint) local() bool {
	return !slices.Contains([]string{"9p", "afs", "autofs", "ceph", "cifs", "smb3", "gfs2", "glusterfs", "lustre",
		"ncpfs"}, m.FSType) &&
		!strings.HasPrefix(m.FSType, "nfs") && !strings.HasPrefix(m.FSType, "fuse")
}

// mountPoints has the mounts in their order. A mount over another is later.
type mountPoints []mountPoint

func readMounts(r host.Root) (all mountPoints, err error) {
	text, err := r.ReadText("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the mounts: %w", err)
	}
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mounts of this machine: %.200q", err.Error())
	}
	for _, m := range mounts {
		all = append(all, mountPoint(*m))
	}
	return all, nil
}

// mountOf returns the mount that contains a folder, or the zero value if unknown.
func (all mountPoints) mountOf(dir string) (found mountPoint) {
	for _, m := range all {
		if len(m.Mountpoint) >= len(found.Mountpoint) && (m.Mountpoint == dir ||
			strings.HasPrefix(dir, strings.TrimSuffix(m.Mountpoint, "/")+"/")) {
			found = m
		}
	}
	return found
}

// below returns the visible mounts in a folder, each path once.
func (all mountPoints) below(dir string) (found mountPoints) {
	for _, m := range all {
		if !strings.HasPrefix(m.Mountpoint, dir+"/") {
			continue
		}
		found = slices.DeleteFunc(found, func(o mountPoint) bool { return o.Mountpoint == m.Mountpoint })
		found = append(found, m)
	}
	return found
}
