package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A temporary file is called after the one that it is to become, .NAME.123~, and
// is locked by the process that writes it. The kernel unlocks it when that is
// killed: one without a lock is nobody's.

// createTemp makes a temporary file for target and locks it.
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

// sweep removes what killed processes left of target. Where the directory can't
// be read, nothing is known to be there.
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
			continue // gone, or no file of ours
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

// isTemp tells whether name is that of a temporary file for base.
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
