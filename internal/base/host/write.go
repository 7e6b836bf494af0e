package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteFile replaces p by data in one step: a temporary file in the same
// directory, created 0600, given its mode, synced and renamed. Readers see the
// old file or the new one; a crash leaves the old one, and beside it a temporary
// file that the next write or removal of p takes away. The parent directory is
// made 0755 where it is missing.
func (r Root) WriteFile(p string, data []byte, mode fs.FileMode) error {
	return r.WriteFileAs(p, data, mode, -1, -1)
}

// WriteFileAs is WriteFile for a file of another user: it belongs to uid and gid
// before it has its name or its mode, so that what is secret is at no moment
// somebody else's. -1 leaves the user or the group as it is made.
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

// CopyFile is WriteFile with the content of another file of this process.
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

// Pending is a file that does not exist under its name until Commit. Cancel
// after Commit does nothing, so `defer w.Cancel()` is always right.
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

// Commit gives the file its mode and its name.
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

// Cancel throws the file away, unless it was committed.
func (w *Pending) Cancel() {
	if !w.done {
		w.done = true
		w.Close()
		os.Remove(w.Name())
	}
}

// Lock takes an exclusive lock on the file p, waiting for it, and returns the
// function that gives it back. The kernel gives it back when the process dies.
func (r Root) Lock(p string) (func(), error) { return r.lock(p, unix.LOCK_EX) }

// ErrLocked says that another process has the lock.
var ErrLocked = errors.New("it is locked")

// TryLock is Lock without waiting: the error is ErrLocked where another process has it.
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
