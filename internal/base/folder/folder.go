// Package folder makes directories, whatever the umask. It is apart from package host, because
// the wrapper lives for a millisecond and makes directories that other users read.
package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MakeAll creates a directory with this mode, and its missing parents with mode 0755.
func MakeAll(dir string, mode fs.FileMode) error {
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return nil
	}
	if up := filepath.Dir(dir); up != dir {
		if err := MakeAll(up, 0o755); err != nil {
			return err
		}
	}
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrExist) {
		if st, serr := os.Stat(dir); serr == nil && st.IsDir() {
			return nil // another process was faster
		}
	}
	if err != nil {
		return err
	}
	// Not by its name, because the owner of the parent may have put a link there.
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(mode)
}
