package oci

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// readTrusted reads a file whose word is done with root's rights: the config,
// for every call, as it names the program that this process becomes, and CDI
// specs. Nobody but root and this user may have written it, or could have put
// another of root's files in its place.
func (w wrapper) readTrusted(path string) ([]byte, error) {
	data, st, err := w.mem.readRegular(path, false)
	if err != nil {
		return nil, err
	}
	if err := w.trusted(st); err != nil {
		return nil, err
	}
	dir := path[:strings.LastIndexByte(path, '/')+1] + "." // no filepath.Dir: each call pays for this
	if err := unix.Stat(dir, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_ISVTX != 0 { // as /tmp: what is root's there, root alone can replace
		st.Mode &^= 0o022
	}
	if err := w.trusted(st); err != nil {
		return nil, fmt.Errorf("its folder %s: %w", filepath.Clean(dir), err)
	}
	return data, nil
}

// trusted refuses what others than root and this user may have changed.
func (w wrapper) trusted(st unix.Stat_t) error {
	if st.Uid != 0 && st.Uid != w.euid {
		return fmt.Errorf("it belongs to user %d, not to root", st.Uid)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("its mode %04o lets others than its owner write to it", st.Mode&0o7777)
	}
	return nil
}
