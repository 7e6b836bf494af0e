package host

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// maxLinks bounds the links of one path, as the kernel does.
const maxLinks = 40

// OnlyRoot returns an error if another user than root, or the user of this process, can put
// another file at p. It checks the file, the folders that it is in, and what links lead to.
func (r Root) OnlyRoot(p string) error {
	for range maxLinks {
		next, err := r.onlyRoot(p)
		if err != nil || next == "" {
			return err
		}
		p = next
	}
	return fmt.Errorf("%s has too many links", p)
}

// onlyRoot checks p up to its first link, and returns the path with that link followed.
func (r Root) onlyRoot(p string) (next string, err error) {
	at, rest := "/", strings.TrimPrefix(path.Clean(p), "/")
	for {
		st, err := r.Lstat(at)
		if err != nil {
			return "", fmt.Errorf("cannot check %s: %w", at, err)
		}
		if err := OnlyRoots(at, st); err != nil {
			return "", err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			to, err := r.Readlink(at)
			if err != nil {
				return "", fmt.Errorf("cannot check %s: %w", at, err)
			}
			if !path.IsAbs(to) {
				to = path.Join(path.Dir(at), to)
			}
			return path.Join(to, rest), nil
		}
		if rest == "" {
			return "", nil
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		at = path.Join(at, name)
	}
}

// OnlyRoots returns an error if another user than root, or the user of this process, can
// change the file at p, or replace root's files in the folder at p.
func OnlyRoots(p string, st fs.FileInfo) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	protected := st.Mode()&fs.ModeSymlink != 0 || st.IsDir() && st.Mode()&fs.ModeSticky != 0
	switch {
	case ok && sys.Uid != 0 && int(sys.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, who could put another program there; chown it to root", p, sys.Uid)
	case st.Mode().Perm()&0o022 != 0 && !protected:
		return fmt.Errorf("%s can be written by others than root; chmod go-w it", p)
	}
	return nil
}
