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
	entries := make([]entry, 0, 8)
	err = eachEntry(fd, func(kind byte, name string) error {
		if m.isDir(fd, kind, name) {
			entries = append(entries, entry{name, true})
		}
		if len(entries) > maxEntries {
			return fmt.Errorf("it has more than %d directories", maxEntries)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return entries, nil
}

const maxEntries = 10000

// eachEntry visits what is in an open directory, less . and .. (struct
// linux_dirent64, getdents(2)).
func eachEntry(fd int, visit func(kind byte, name string) error) error {
	const header = 19
	room := make([]byte, 2048)
	for {
		n, err := unix.Getdents(fd, room)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for buf := room[:n]; len(buf) > header; {
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
				if err := visit(kind, s); err != nil {
					return err
				}
			}
		}
	}
}

// isDir tells by its type in the directory, or asks for it: a few file systems
// keep none there.
func (m machine) isDir(fd int, kind byte, name string) bool {
	if kind != unix.DT_UNKNOWN {
		return kind == unix.DT_DIR
	}
	var st unix.Statx_t
	return m.statx(fd, name, noSync, unix.STATX_TYPE, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
