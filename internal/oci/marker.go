package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// marker remembers, from create to exec, that each process of a container
// needs more groups. Written only where no private node can be made.
type marker struct {
	Bundle string   `json:"bundle"` // the marker is void when this is gone
	Groups []uint32 `json:"groups"` // container-side
}

// markers is a directory of mode 0700 with one file of mode 0600 a container.
type markers struct {
	dir  string
	euid uint32
}

// path refuses IDs that are no plain file name; runc refuses them too.
func (m markers) path(id string) (string, error) {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-"
	odd := strings.ContainsFunc(id, func(r rune) bool { return !strings.ContainsRune(allowed, r) })
	if id == "" || id == "." || id == ".." || len(id) > 200 || odd {
		return "", fmt.Errorf("cannot use container ID %q: it has to be at most 200 letters, digits, _, +, . and -", id)
	}
	return filepath.Join(m.dir, id), nil
}

// load returns the groups that exec has to add; none is the usual case.
func (m markers) load(id string) ([]uint32, error) {
	path, err := m.path(id)
	if err != nil {
		return nil, err
	}
	data, st, err := readRegular(path, true)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err == nil && st.Uid != m.euid {
		err = fmt.Errorf("it belongs to user %d", st.Uid)
	}
	var k marker
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read marker %s: %w", path, err)
	}
	return k.Groups, nil
}

// save writes the marker in one step and drops those of containers that are gone.
func (m markers) save(id, bundlePath string, groups []uint32) error {
	path, err := m.path(id)
	if err != nil {
		return err
	}
	if err := privateDir(m.dir, m.euid); err != nil {
		return err
	}
	m.sweep()
	if bundlePath, err = filepath.Abs(bundlePath); err != nil {
		return err
	}
	data, err := json.Marshal(marker{Bundle: bundlePath, Groups: groups})
	if err != nil {
		return err
	}
	temp := fmt.Sprintf("%s/%%%d", m.dir, os.Getpid()) // no ID has a %
	if err = os.WriteFile(temp, data, 0o600); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
		return fmt.Errorf("cannot write marker of container %s: %w", id, err)
	}
	return nil
}

// forget drops the marker of an earlier container of the same name.
func (m markers) forget(id string) error {
	path, err := m.path(id)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot remove marker of an earlier container: %w", err)
	}
	return nil
}

// sweep keeps the directory as small as the number of containers that live.
// `delete` can't do it, as it goes straight to the real runc.
func (m markers) sweep() {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return // save fails on the same directory next, and says why
	}
	for _, e := range entries {
		path := filepath.Join(m.dir, e.Name())
		var k marker
		data, _, err := readRegular(path, true)
		if err != nil || json.Unmarshal(data, &k) != nil || k.Bundle == "" {
			continue
		}
		if _, err := os.Lstat(filepath.Join(k.Bundle, configName)); errors.Is(err, unix.ENOENT) {
			os.Remove(path)
		}
	}
}
