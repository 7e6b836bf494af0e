package resource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// Dir describes a directory with this mode. Its content is ignored.
type Dir struct {
	Path  string
	Mode  fs.FileMode
	Owner string // as in File
}

// Diff implements plan.Resource.
func (d Dir) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	st, err := h.Lstat(d.Path)
	why := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = "missing"
	case err != nil:
		return nil, fmt.Errorf("cannot compare %s: %w", d.Path, err)
	case !st.IsDir():
		return nil, fmt.Errorf("cannot use %s as a directory: a file has that name; move it away", d.Path)
	case st.Mode().Perm() != d.Mode:
		why = fmt.Sprintf("mode %04o, want %04o", st.Mode().Perm(), d.Mode)
	default:
		if why, err = ownerDiffers(h, st, d.Owner); err != nil || why == "" {
			return nil, err
		}
	}
	return plan.Plan{{Op: "make directory " + d.Path, Why: why, Do: func(context.Context) error {
		uid, gid, err := ids(h, d.Owner)
		if err != nil {
			return err
		}
		if err := h.MkdirAll(d.Path, d.Mode); err != nil {
			return err
		}
		if uid >= 0 {
			if err := os.Lchown(h.Path(d.Path), uid, gid); err != nil {
				return err
			}
		}
		return os.Chmod(h.Path(d.Path), d.Mode)
	}}}, nil
}

// Absent describes a file, link or directory tree that must not exist.
type Absent struct {
	Path string
	Why  string // reason of the removal: "compute-runtime is none"
	Tree bool   // remove a directory with its content, see RemoveTree
}

// AllAbsent returns an Absent for each path.
func AllAbsent(why string, paths ...string) []plan.Resource {
	var all []plan.Resource
	for _, p := range paths {
		all = append(all, Absent{Path: p, Why: why})
	}
	return all
}

// Diff implements plan.Resource.
func (a Absent) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if _, err := h.Lstat(a.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("cannot compare %s: %w", a.Path, err)
	}
	return plan.Plan{{Op: "remove " + a.Path, Why: a.Why, Do: func(context.Context) error {
		if !a.Tree {
			return h.Remove(a.Path)
		}
		mounted, err := RemoveTree(h.Root, a.Path)
		if err == nil && len(mounted) > 0 {
			err = fmt.Errorf("a file system is mounted on %s; unmount it", mounted[0])
		}
		return err
	}}}, nil
}

// Link describes a symbolic link. A link to another target is replaced. Another kind of
// file is not replaced, because its owner is unknown.
type Link struct {
	Path string
	To   string // literal text of the link
}

// Diff implements plan.Resource.
func (l Link) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	why := "missing"
	switch to, err := h.Readlink(l.Path); {
	case err == nil && to == l.To:
		return nil, nil
	case err == nil:
		why = "it leads to " + to
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("cannot use %s as a link: %w; move it away", l.Path, err)
	}
	return plan.Plan{{Op: "link " + l.Path + " to " + l.To, Why: why, Do: func(context.Context) error {
		if why != "missing" {
			if err := h.Remove(l.Path); err != nil {
				return err
			}
		}
		return os.Symlink(l.To, h.Path(l.Path))
	}}}, nil
}

// RemoveTree removes a file, or a folder with its content. A file system that is mounted at
// the path or below it stays with its content, and so do the folders that lead to it.
// RemoveTree returns the mounts that stay.
func RemoveTree(r host.Root, p string) (mounted []string, err error) {
	up, err := r.Resolve(path.Dir(p)) // mountinfo has no links
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p = path.Join(up, path.Base(p))
	mounts, err := readMounts(r)
	if err != nil {
		return nil, err
	}
	if mounts.mountOf(p).Mountpoint == p {
		mounted = append(mounted, p)
	}
	for _, m := range mounts.below(p) {
		mounted = append(mounted, m.Mountpoint)
	}
	return mounted, removeExcept(r, p, mounted)
}

// removeExcept removes a path, except some paths at and below it.
func removeExcept(r host.Root, p string, except []string) error {
	leads := false
	for _, e := range except {
		if e == p {
			return nil
		}
		leads = leads || strings.HasPrefix(e, p+"/")
	}
	if !leads {
		return os.RemoveAll(r.Path(p))
	}
	entries, err := r.ReadDir(p)
	for _, e := range entries {
		err = errors.Join(err, removeExcept(r, path.Join(p, e.Name()), except))
	}
	return err
}
