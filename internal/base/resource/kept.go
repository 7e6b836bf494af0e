package resource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/wellknown"
)

// Kept is what a package's own scripts delete or change though it is others'. It
// is copied before apt acts on the package and put back after, whatever came of
// that. As a resource it is no copy of a run that was killed in between: such a
// copy is put back, and nothing is looked for where there is none.
type Kept struct {
	Package string
	Folder  string // they delete it: what is missing of it is put back
	File    string // they write it: it is put back where it differs
}

// dir is where the copies lie, complete from the moment it has its name.
func (k Kept) dir() string    { return wellknown.StateDir + "/kept-" + k.Package }
func (k Kept) folder() string { return k.dir() + "/folder" }
func (k Kept) file() string   { return k.dir() + "/file" }

func (k Kept) paths() string { return k.Folder + " and " + k.File }

// Pending reports whether something is still to be put back.
func (k Kept) Pending(r host.Root) bool { return there(r, k.dir()) }

// Diff implements plan.Resource.
func (k Kept) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if !k.Pending(h.Root) {
		return nil, nil
	}
	return plan.Plan{{Op: "put back " + k.paths(), Why: k.Package + " changed them, and the run that kept them was ended",
		Do: func(ctx context.Context) error { return k.PutBack(ctx, h) }}}, nil
}

// PutBack does what the plan of a Kept says.
func (k Kept) PutBack(ctx context.Context, h host.Host) error {
	if !k.Pending(h.Root) {
		return nil
	}
	return k.putBack(ctx, h, true)
}

// around is the step of a plan in which apt acts on the package.
func (k *Kept) around(h host.Host, s plan.Step) plan.Step {
	if k == nil {
		return s
	}
	do := s.Do
	s.Why += "; " + k.paths() + " are kept as they are"
	s.Do = func(ctx context.Context) error {
		if err := k.keep(h.Root); err != nil {
			return fmt.Errorf("cannot keep %s, which the package would change: %w", k.paths(), err)
		}
		err := do(ctx)
		if back := k.putBack(ctx, h, false); back != nil {
			err = errors.Join(err, fmt.Errorf("cannot put back %s: %w", k.paths(), back))
		}
		return err
	}
	return s
}

// keep copies what is there. A copy that an earlier run left is the truer one.
func (k Kept) keep(r host.Root) error {
	if k.Pending(r) {
		return nil
	}
	if err := k.drop(r); err != nil {
		return err
	}
	begun := Kept{Package: k.Package + ".new"}
	if err := r.MkdirAll(begun.dir(), 0o700); err != nil {
		return err
	}
	if there(r, k.Folder) {
		if err := copyMissing(r, k.Folder, begun.folder()); err != nil {
			return err
		}
	}
	if file, err := r.Resolve(k.File); err == nil {
		if err := copyFile(r, file, begun.file()); err != nil {
			return err
		}
	}
	if err := syncDir(r, begun.dir()); err != nil {
		return err
	}
	if err := os.Rename(r.Path(begun.dir()), r.Path(k.dir())); err != nil {
		return err
	}
	return syncDir(r, path.Dir(k.dir()))
}

// putBack waits for what was begun before and still goes on: a killed hook does
// not end its apt. found says that others may have written the file since; what
// they wrote is moved aside then.
func (k Kept) putBack(ctx context.Context, h host.Host, found bool) error {
	err := func() error {
		unlock, err := lockDpkg(ctx, h.Root)
		if err != nil {
			return err
		}
		defer unlock()
		if there(h.Root, k.folder()) {
			if err := copyMissing(h.Root, k.folder(), k.Folder); err != nil {
				return err
			}
		}
		if there(h.Root, k.file()) {
			if err := k.putFileBack(h.Root, found); err != nil {
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

func (k Kept) putFileBack(r host.Root, found bool) error {
	target, err := r.Resolve(k.File) // what a link leads to is what they write
	if err != nil {
		return copyFile(r, k.file(), k.File)
	}
	same, err := alike(r, k.file(), target)
	if err != nil || same {
		return err
	}
	if found {
		if err := copyFile(r, target, target+".found-by-concourse"); err != nil {
			return err
		}
	}
	return copyFile(r, k.file(), target)
}

// drop forgets the copies: first their name, so that no half of them is ever put
// back.
func (k Kept) drop(r host.Root) error {
	begun := Kept{Package: k.Package + ".new"}.dir()
	if err := os.RemoveAll(r.Path(begun)); err != nil {
		return err
	}
	if err := os.Rename(r.Path(k.dir()), r.Path(begun)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(r.Path(begun))
}
