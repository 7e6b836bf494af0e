package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// WriteFile replaces p with data in one step. It creates a temporary file in the same
// directory with mode 0600, sets its mode, syncs and renames it. Readers see the old file
// or the new one. A crash leaves the old one, and a temporary file that the next write or
// removal of p removes. A missing parent directory is created with mode 0755.
func (r Root) WriteFile(p string, data []byte, mode fs.FileMode) error {
	return r.WriteFileAs(p, data, mode, -1, -1)
}

// WriteFileAs works like WriteFile for a file of another user. The file gets its owner
// before its name and mode, so that a secret never belongs to another user. -1 keeps the
// default user or group.
func (r Root) WriteFileAs(p string, data []byte, mode fs.FileMode, uid, gid int) error {
	w, err := r.Create(p, mode)
	if err != nil {
		return err
	}
	defer w.Cancel()
	if uid >= 0 || gid >= 0 {
		if err := w.Chown(uid, gid); err != nil {
			return err
		}
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Commit()
}

// CopyFile works like WriteFile with the content of a reader.
func (r Root) CopyFile(p string, from io.Reader, mode fs.FileMode) error {
	w, err := r.Create(p, mode)
	if err != nil {
		return err
	}
	defer w.Cancel()
	if _, err := io.Copy(w, from); err != nil {
		return err
	}
	return w.Commit()
}

// Pending holds a file that has no name until Commit. Cancel after Commit has no effect, so
// `defer w.Cancel()` is always correct.
type Pending struct {
	*os.File
	target string
	mode   fs.FileMode
	done   bool
}

// Create starts a replacement of p.
func (r Root) Create(p string, mode fs.FileMode) (*Pending, error) {
	target := r.Path(p)
	if err := r.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return nil, err
	}
	if err := sweep(target); err != nil {
		return nil, err
	}
	f, err := createTemp(target)
	if err != nil {
		return nil, err
	}
	return &Pending{File: f, target: target, mode: mode}, nil
}

// Commit sets the file's mode and name.
func (w *Pending) Commit() error {
	if w.done {
		return errors.New("cannot commit file: it was committed or cancelled before")
	}
	err := w.Chmod(w.mode)
	if err == nil {
		err = w.Sync()
	}
	if err == nil {
		err = os.Rename(w.Name(), w.target) // before it is closed, which unlocks it
	}
	if err != nil {
		os.Remove(w.Name())
	}
	w.done = true
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}

// Cancel removes the file, unless it was committed.
func (w *Pending) Cancel() {
	if !w.done {
		w.done = true
		w.Close()
		os.Remove(w.Name())
	}
}

// Lock waits for an exclusive lock on the file p, and returns the function that releases
// it. The kernel releases it when the process dies.
func (r Root) Lock(p string) (func(), error) { return r.lock(p, unix.LOCK_EX) }

// ErrLocked reports that another process has the lock.
var ErrLocked = errors.New("it is locked")

// TryLock works like Lock without waiting. The error is ErrLocked if another process has
// the lock.
func (r Root) TryLock(p string) (func(), error) {
	unlock, err := r.lock(p, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return unlock, err
}

func (r Root) lock(p string, how int) (func(), error) {
	if err := r.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(r.Path(p), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, how); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// A temporary file is named after its target, .NAME.123~, and locked by the process that
// writes it. The kernel releases the lock when that process is killed. So a file without a
// lock is abandoned.

// createTemp creates a temporary file for target and locks it.
func createTemp(target string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*~")
		if err != nil {
			return nil, err
		}
		var st unix.Stat_t
		if err = flock(f, unix.LOCK_EX); err == nil {
			err = unix.Fstat(int(f.Fd()), &st)
		}
		if err == nil && st.Nlink > 0 {
			return f, nil
		}
		os.Remove(f.Name())
		f.Close()
		if err != nil {
			return nil, err
		}
		// A sweep came before the lock.
	}
}

// sweep removes temporary files of killed processes for target. It ignores an unreadable
// directory.
func sweep(target string) error {
	dir := filepath.Dir(target)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if !isTemp(e.Name(), filepath.Base(target)) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // removed, or not a temporary file
		}
		if err = flock(f, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			err = os.Remove(name)
		}
		f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isTemp reports whether name is a temporary file for base.
func isTemp(name, base string) bool {
	digits, ok := strings.CutPrefix(name, "."+base+".")
	digits, ends := strings.CutSuffix(digits, "~")
	return ok && ends && digits != "" && strings.Trim(digits, "0123456789") == ""
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
