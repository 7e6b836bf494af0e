package resource

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
)

// copyMissing copies from to to, with everything in it. It does not replace existing files,
// but gives existing folders their mode and owner again.
func copyMissing(r host.Root, from, to string) error {
	st, err := r.Lstat(from)
	if err != nil {
		return err
	}
	have, err := r.Lstat(to)
	there, mode := err == nil, st.Mode()
	raw := st.Sys().(*syscall.Stat_t)
	switch {
	case there && !(mode.IsDir() && have.IsDir()):
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

func syncDir(r host.Root, p string) error {
	d, err := os.Open(r.Path(p))
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
