package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// MakeGroups makes a control group for machines in the unified hierarchy. The caller's
// goroutine must be locked to its thread, which gets a separate mount namespace. Call remove
// after the last process of the machines has ended, on the same thread.
func MakeGroups() (top string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "concourse-groups-")
	if err != nil {
		return "", nil, err
	}
	for _, do := range []func() error{
		func() error { return unix.Unshare(unix.CLONE_NEWNS) },
		func() error { return unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return unix.Mount("cgroup2", dir, "cgroup2", 0, "") },
	} {
		if err := do(); err != nil {
			return "", nil, fmt.Errorf("cannot mount the control groups: %w", errors.Join(err, os.Remove(dir)))
		}
	}
	top = filepath.Join(dir, filepath.Base(dir))
	if err := os.Mkdir(top, 0o755); err != nil {
		return "", nil, errors.Join(err, unix.Unmount(dir, 0), os.Remove(dir))
	}
	return top, func() error { return errors.Join(removeGroups(top), unix.Unmount(dir, 0), os.Remove(dir)) }, nil
}

// removeGroups removes a control group with the groups below it. None has a process.
func removeGroups(top string) error {
	var all []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	for _, group := range slices.Backward(all) {
		err = errors.Join(err, unix.Rmdir(group))
	}
	return err
}
