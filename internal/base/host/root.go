// Package host is the interface to the machine: a file tree (Root), a way to run commands
// (Runner) and a clock (Clock). All access to the machine goes through these three, so that
// a test, the demo or dispatch's CHARM_ROOT can replace the machine. It never decides
// anything and has no knowledge of Juju, Concourse or GPUs.
package host

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/folder"
)

// Root names the directory that replaces "/". Its methods take absolute paths of the
// machine.
type Root string

// Path returns p below the root, as this process opens it.
func (r Root) Path(p string) string { return filepath.Join(string(r), p) }

// Real reports whether the root is the running machine's own "/".
func (r Root) Real() bool { return r == "" || filepath.Clean(string(r)) == "/" }

// Rel converts a path below the root to a path of the machine.
func (r Root) Rel(p string) string {
	if r.Real() {
		return p
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(p, filepath.Clean(string(r))), "/")
}

// ReadText reads a file with one value, as in sysfs, without surrounding white space. A
// missing or unreadable file is an error, never "".
func (r Root) ReadText(p string) (string, error) {
	b, err := os.ReadFile(r.Path(p))
	return strings.TrimSpace(string(b)), err
}

// Stat follows symbolic links.
func (r Root) Stat(p string) (fs.FileInfo, error) { return os.Stat(r.Path(p)) }

// Lstat does not follow symbolic links.
func (r Root) Lstat(p string) (fs.FileInfo, error) { return os.Lstat(r.Path(p)) }

// Exists reports whether p can be reached, following links.
func (r Root) Exists(p string) bool {
	_, err := os.Stat(r.Path(p))
	return err == nil
}

// ReadDir lists a directory, sorted by name.
func (r Root) ReadDir(p string) ([]fs.DirEntry, error) { return os.ReadDir(r.Path(p)) }

// Glob returns the machine paths that match, sorted.
func (r Root) Glob(pattern string) ([]string, error) {
	found, err := filepath.Glob(r.Path(pattern))
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i] = r.Rel(found[i])
	}
	sort.Strings(found)
	return found, nil
}

// Readlink returns the text of a link.
func (r Root) Readlink(p string) (string, error) { return os.Readlink(r.Path(p)) }

// Resolve follows every link of p and returns the machine path it ends at.
func (r Root) Resolve(p string) (string, error) {
	end, err := filepath.EvalSymlinks(r.Path(p))
	if err != nil {
		return "", err
	}
	if r.Real() {
		return end, nil
	}
	base, err := filepath.EvalSymlinks(string(r))
	if err != nil {
		return "", err
	}
	return Root(base).Rel(end), nil
}

// MkdirAll creates a directory with this mode, and its missing parents with mode 0755,
// whatever the umask.
func (r Root) MkdirAll(p string, mode fs.FileMode) error { return folder.MakeAll(r.Path(p), mode) }

// Remove removes one file or empty directory, and temporary files of killed writes. A
// missing file is not an error.
func (r Root) Remove(p string) error {
	if err := sweep(r.Path(p)); err != nil {
		return err
	}
	if err := os.Remove(r.Path(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ErrNotFile reports that the name belongs to another kind of file.
var ErrNotFile = errors.New("not a regular file")

// ReadFile reads a whole regular file. It never waits for another process, because a pipe
// with the name of a file would block a hook permanently.
func (r Root) ReadFile(p string) ([]byte, error) {
	f, err := os.OpenFile(r.Path(p), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: ErrNotFile}
	}
	b := bytes.NewBuffer(make([]byte, 0, st.Size()+bytes.MinRead))
	if _, err := b.ReadFrom(f); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Clock provides the time and waits. Hooks use no other clock.
type Clock interface {
	Now() time.Time
	Sleep(d time.Duration)
}

// WallClock reads the machine's own clock.
type WallClock struct{}

// Now returns the current time.
func (WallClock) Now() time.Time { return time.Now() }

// Sleep waits.
func (WallClock) Sleep(d time.Duration) { time.Sleep(d) }

// Host combines a machine's root with its files, commands and clock.
type Host struct {
	Root
	Runner
	Clock
}

// New returns the running machine, with its files below root ("" or "/" for the machine's
// own).
func New(root string) Host { return Host{Root: Root(root), Runner: Exec{}, Clock: WallClock{}} }
