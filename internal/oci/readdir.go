package oci

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// entry is one name in a directory.
type entry struct {
	name string
	dir  bool // a real directory, not a link to one
}

// listFolders reads a directory's names and types, sorted by name. What is
// behind a name is not asked: the kernel has the type in the directory itself.
func (m machine) listFolders(root string) ([]entry, error) {
	if why := m.whyUnusable(root); why != "" {
		return nil, errors.New("it " + why)
	}
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var entries []entry
	buf := make([]byte, 8192)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		if entries = m.appendEntries(entries, buf[:n], fd); len(entries) > maxEntries {
			return nil, fmt.Errorf("it has more than %d directories", maxEntries)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return entries, nil
}

const maxEntries = 10000

// appendEntries decodes struct linux_dirent64 (getdents(2)).
func (m machine) appendEntries(entries []entry, buf []byte, fd int) []entry {
	const header = 19
	for len(buf) > header {
		size := int(binary.NativeEndian.Uint16(buf[16:]))
		if size < header || size > len(buf) {
			break
		}
		kind, name := buf[18], buf[header:size]
		buf = buf[size:]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if s := string(name); s != "." && s != ".." {
			if kind == unix.DT_UNKNOWN {
				kind = m.kindOf(fd, s)
			}
			if kind == unix.DT_DIR {
				entries = append(entries, entry{s, true})
			}
		}
	}
	return entries
}

// kindOf is for the few file systems that keep no types in directories.
func (m machine) kindOf(fd int, name string) byte {
	var st unix.Statx_t
	if m.statx(fd, name, noSync, unix.STATX_TYPE, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.DT_DIR
	}
	return unix.DT_UNKNOWN
}
