// Package resource has the kinds of desired state that the charm consists of: files,
// directories, packages, apt sources, systemd units, Pebble services and triggers. Each
// compares the machine with the desired state and returns the missing steps
// (plan.Resource), or none. It never decides the desired state.
package resource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// File describes a regular file with this content and mode. A link or another kind of file
// in its place is replaced, not followed.
type File struct {
	Path string
	Data []byte
	Mode fs.FileMode
	// Owner is a user of the machine. The file belongs to the user and its primary group.
	// "" leaves the owner unchanged. Without root, the owner is neither checked nor set.
	Owner string
}

// Diff implements plan.Resource.
func (f File) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	why, err := f.missing(h)
	if err != nil || why == "" {
		return nil, err
	}
	return plan.Plan{{Op: "write " + f.Path, Why: why, Content: f.Data, Do: func(context.Context) error {
		uid, gid, err := ids(h, f.Owner)
		if err != nil {
			return err
		}
		return h.WriteFileAs(f.Path, f.Data, f.Mode, uid, gid)
	}}}, nil
}

func (f File) missing(h host.Host) (string, error) {
	why, err := fileMode(h, f.Path, f.Mode, f.Owner)
	if err != nil || why != "" {
		return why, err
	}
	have, err := h.ReadFile(f.Path)
	if err != nil {
		return "", fmt.Errorf("cannot compare %s: %w", f.Path, err)
	}
	if !bytes.Equal(have, f.Data) {
		return "content differs", nil
	}
	return "", nil
}

// fileMode returns why p is not a regular file with that mode and owner, or "".
func fileMode(h host.Host, p string, mode fs.FileMode, owner string) (string, error) {
	st, err := h.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "missing", nil
	case err != nil:
		return "", fmt.Errorf("cannot compare %s: %w", p, err)
	case !st.Mode().IsRegular():
		return "not a regular file", nil
	case st.Mode().Perm() != mode:
		return fmt.Sprintf("mode %04o, want %04o", st.Mode().Perm(), mode), nil
	}
	return ownerDiffers(h, st, owner)
}

// Copy describes a file with the content of another, which may be outside the host's root: a
// binary of the charm.
type Copy struct {
	Path string
	From string // path as this process opens it
	Mode fs.FileMode
}

// Diff implements plan.Resource. It compares sizes before contents.
func (c Copy) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	src, err := os.Stat(c.From)
	if err != nil {
		return nil, fmt.Errorf("cannot install %s: %w", c.Path, err)
	}
	why, err := fileMode(h, c.Path, c.Mode, "")
	if err != nil {
		return nil, err
	}
	if why == "" {
		same, err := sameContent(h, c.Path, c.From, src)
		if err != nil {
			return nil, fmt.Errorf("cannot compare %s with %s: %w", c.Path, c.From, err)
		}
		if same {
			return nil, nil
		}
		why = "content differs"
	}
	return plan.Plan{{Op: "install " + c.Path, Why: why, Do: func(context.Context) error {
		f, err := os.Open(c.From)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := h.CopyFile(c.Path, f, c.Mode); err != nil {
			return err
		}
		return os.Chtimes(h.Path(c.Path), src.ModTime(), src.ModTime())
	}}}, nil
}

// sameContent trusts equal size and modification time, because the copy preserves them.
// Reading 15 MB of binaries in every hook would take most of its time.
func sameContent(h host.Host, path, from string, src fs.FileInfo) (bool, error) {
	dst, err := h.Stat(path)
	if err != nil {
		return false, err
	}
	if dst.Size() != src.Size() {
		return false, nil
	}
	if dst.ModTime().Equal(src.ModTime()) {
		return true, nil
	}
	a, err := h.ReadFile(path)
	if err != nil {
		return false, err
	}
	b, err := os.ReadFile(from)
	return bytes.Equal(a, b), err
}
