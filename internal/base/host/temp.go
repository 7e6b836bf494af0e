package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

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
