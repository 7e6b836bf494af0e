package resource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// Preserved has files of others that a package's own scripts delete or change. They are
// copied before apt acts on the package and restored afterwards, also after a failure. As a
// resource, Preserved restores only the copy of a run that was killed in between.
type Preserved struct {
	Package string
	Folder  string // deleted by the scripts; missing files are restored
	File    string // changed by the scripts; restored if it differs
}

// dir returns the folder of the copies. It gets this name when it is complete.
func (k Preserved) dir() string    { return wellknown.StateDir + "/kept-" + k.Package }
func (k Preserved) folder() string { return k.dir() + "/folder" }
func (k Preserved) file() string   { return k.dir() + "/file" }

func (k Preserved) paths() string { return k.Folder + " and " + k.File }

// Pending reports whether files still need to be restored.
func (k Preserved) Pending(r host.Root) bool { return exists(r, k.dir()) }

// Diff implements plan.Resource.
func (k Preserved) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if !k.Pending(h.Root) {
		return nil, nil
	}
	return plan.Plan{{Op: "put back " + k.paths(), Why: k.Package +
		" changed them, and the run that kept them was ended",
		Do: func(ctx context.Context) error { return k.Restore(ctx, h) }}}, nil
}

// Restore performs the plan of a Preserved.
func (k Preserved) Restore(ctx context.Context, h host.Host) error {
	if !k.Pending(h.Root) {
		return nil
	}
	return k.restore(ctx, h, k.restoreChanged)
}

// wrap adds copying and restoring to the step in which apt acts on the package.
func (k *Preserved) wrap(h host.Host, s plan.Step) plan.Step {
	if k == nil {
		return s
	}
	do := s.Do
	s.Why += "; " + k.paths() + " are kept as they are"
	s.Do = func(ctx context.Context) error {
		if err := k.save(h.Root); err != nil {
			return fmt.Errorf("cannot keep %s, which the package would change: %w", k.paths(), err)
		}
		err := do(ctx)
		if back := k.restore(ctx, h, k.restoreFile); back != nil {
			err = errors.Join(err, fmt.Errorf("cannot put back %s: %w", k.paths(), back))
		}
		return err
	}
	return s
}

// save copies the existing files. A copy of an earlier run is kept, because it is the more
// original one.
func (k Preserved) save(r host.Root) error {
	if k.Pending(r) {
		return nil
	}
	if err := k.drop(r); err != nil {
		return err
	}
	begun := Preserved{Package: k.Package + ".new"}
	if err := r.MkdirAll(begun.dir(), 0o700); err != nil {
		return err
	}
	if exists(r, k.Folder) {
		if err := copyMissing(r, k.Folder, begun.folder()); err != nil {
			return err
		}
	}
	if file, err := r.Resolve(k.File); err == nil {
		if err := copyFile(r, file, begun.file()); err != nil {
			return err
		}
	}
	if err := SyncDir(r.Path(begun.dir())); err != nil {
		return err
	}
	if err := os.Rename(r.Path(begun.dir()), r.Path(k.dir())); err != nil {
		return err
	}
	return SyncDir(r.Path(path.Dir(k.dir())))
}

// restore waits for a running apt, because a killed hook does not end its apt.
func (k Preserved) restore(ctx context.Context, h host.Host, restoreFile func(host.Root) error) error {
	err := func() error {
		unlock, err := lockDpkg(ctx, h.Root)
		if err != nil {
			return err
		}
		defer unlock()
		if exists(h.Root, k.folder()) {
			if err := copyMissing(h.Root, k.folder(), k.Folder); err != nil {
				return err
			}
		}
		if exists(h.Root, k.file()) {
			if err := restoreFile(h.Root); err != nil {
				return err
			}
		}
		return k.drop(h.Root)
	}()
	if err != nil {
		return fmt.Errorf("the files of others stay in %s: %w", k.dir(), err)
	}
	return nil
}

func (k Preserved) restoreFile(r host.Root) error {
	target, err := r.Resolve(k.File) // the scripts write to the target of a link
	if err != nil {
		return copyFile(r, k.file(), k.File)
	}
	same, err := equalFiles(r, k.file(), target)
	if err != nil || same {
		return err
	}
	return copyFile(r, k.file(), target)
}

// restoreChanged keeps a copy of a file that others may have written since.
func (k Preserved) restoreChanged(r host.Root) error {
	if target, err := r.Resolve(k.File); err == nil {
		same, err := equalFiles(r, k.file(), target)
		if err != nil || same {
			return err
		}
		if err := copyFile(r, target, target+".found-by-concourse"); err != nil {
			return err
		}
	}
	return k.restoreFile(r)
}

// drop removes the copies. It renames them first, so that an incomplete copy is never
// restored.
func (k Preserved) drop(r host.Root) error {
	begun := Preserved{Package: k.Package + ".new"}.dir()
	if err := os.RemoveAll(r.Path(begun)); err != nil {
		return err
	}
	if err := os.Rename(r.Path(k.dir()), r.Path(begun)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(r.Path(begun))
}

// copyMissing copies from to to, with everything in it. It does not replace existing files,
// but gives existing folders their mode and owner again.
func copyMissing(r host.Root, from, to string) error {
	st, err := r.Lstat(from)
	if err != nil {
		return err
	}
	have, err := r.Lstat(to)
	present, mode := err == nil, st.Mode()
	raw := st.Sys().(*syscall.Stat_t)
	switch {
	case present && !(mode.IsDir() && have.IsDir()):
		return nil
	case mode.IsRegular():
		return copyFile(r, from, to)
	case mode&fs.ModeSymlink != 0:
		text, err := r.Readlink(from)
		if err == nil {
			err = os.Symlink(text, r.Path(to))
		}
		if err != nil {
			return err
		}
		return os.Lchown(r.Path(to), int(raw.Uid), int(raw.Gid))
	case !mode.IsDir():
		if err := unix.Mknod(r.Path(to), raw.Mode, int(raw.Rdev)); err != nil {
			return err
		}
		return copyAttributes(r, st, to)
	}
	if err := r.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := r.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyMissing(r, path.Join(from, e.Name()), path.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return copyAttributes(r, st, to)
}

// copyFile replaces a file with another in one step.
func copyFile(r host.Root, from, to string) error {
	st, err := r.Lstat(from)
	if err != nil {
		return err
	}
	data, err := r.ReadFile(from)
	if err != nil {
		return err
	}
	raw := st.Sys().(*syscall.Stat_t)
	if err := r.WriteFileAs(to, data, st.Mode().Perm(), int(raw.Uid), int(raw.Gid)); err != nil {
		return err
	}
	return copyAttributes(r, st, to)
}

// copyAttributes copies owner, mode and time.
func copyAttributes(r host.Root, st fs.FileInfo, to string) error {
	raw := st.Sys().(*syscall.Stat_t)
	if err := os.Lchown(r.Path(to), int(raw.Uid), int(raw.Gid)); err != nil {
		return err
	}
	if err := unix.Chmod(r.Path(to), raw.Mode&0o7777); err != nil {
		return err
	}
	return os.Chtimes(r.Path(to), st.ModTime(), st.ModTime())
}

// SyncDir writes the entries of a folder to the disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// equalFiles compares content, mode and owner of two files.
func equalFiles(r host.Root, a, b string) (bool, error) {
	var st [2]unix.Stat_t
	var data [2][]byte
	for i, p := range []string{a, b} {
		var err error
		if data[i], err = r.ReadFile(p); err != nil {
			return false, err
		}
		if err := unix.Stat(r.Path(p), &st[i]); err != nil {
			return false, err
		}
	}
	return bytes.Equal(data[0], data[1]) && st[0].Mode == st[1].Mode && st[0].Uid == st[1].Uid &&
		st[0].Gid == st[1].Gid, nil
}

// exists reports whether a name is used, also by a dangling link.
func exists(r host.Root, p string) bool {
	_, err := r.Lstat(p)
	return err == nil
}
