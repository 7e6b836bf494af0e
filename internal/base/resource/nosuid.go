package resource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

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
	case mount.path == n.Dir:
		step("remount "+n.Dir+" nosuid,nodev", remount(n.Dir))
	case len(below) == 0: // otherwise those would be hidden
		step("mount "+n.Dir+" on itself, nosuid,nodev", []string{"mount", "--bind", n.Dir, n.Dir}, remount(n.Dir))
	}
	for _, m := range below {
		if m.honours() && m.local() {
			step("remount "+m.path+" nosuid,nodev", remount(m.path))
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
			return m.path, nil
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
	return mounts.mountOf(dir).source
}

// mountPoint holds a line of /proc/self/mountinfo (proc(5)).
type mountPoint struct {
	path    string
	options []string // of the mount, not of its file system
	kind    string   // type of the file system
	source  string   // such as /dev/sda1 or a dataset of ZFS
}

func (m mountPoint) honours() bool {
	return m.path != "" && (!slices.Contains(m.options, "nosuid") || !slices.Contains(m.options, "nodev"))
}

// local reports whether the mount needs no server. A dead server would block the mount
// command.
func (m mountPoint) local() bool {
	return !slices.Contains([]string{"9p", "afs", "autofs", "ceph", "cifs", "smb3", "gfs2", "glusterfs", "lustre",
		"ncpfs"}, m.kind) &&
		!strings.HasPrefix(m.kind, "nfs") && !strings.HasPrefix(m.kind, "fuse")
}

// mountPoints has the mounts in their order. A mount over another is later.
type mountPoints []mountPoint

func readMounts(r host.Root) (all mountPoints, err error) {
	text, err := r.ReadText("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what is mounted: %w", err)
	}
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		field, kind := strings.Fields(before), strings.Fields(after)
		if len(field) < 6 || len(kind) < 2 {
			return nil, fmt.Errorf("cannot read what is mounted: %q is no line of mountinfo", line)
		}
		all = append(all, mountPoint{unescape(field[4]), strings.Split(field[5], ","), kind[0], kind[1]})
	}
	return all, nil
}

// unescape decodes \040 and similar escapes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountOf returns the mount that contains a folder, or the zero value if unknown.
func (all mountPoints) mountOf(dir string) (found mountPoint) {
	for _, m := range all {
		if len(m.path) >= len(found.path) && (m.path == dir ||
			strings.HasPrefix(dir, strings.TrimSuffix(m.path, "/")+"/")) {
			found = m
		}
	}
	return found
}

// below returns the visible mounts in a folder, each path once.
func (all mountPoints) below(dir string) (found mountPoints) {
	for _, m := range all {
		if !strings.HasPrefix(m.path, dir+"/") {
			continue
		}
		found = slices.DeleteFunc(found, func(o mountPoint) bool { return o.path == m.path })
		found = append(found, m)
	}
	return found
}
