package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// minAge protects files that a running task may still use.
const minAge = time.Hour

// Cleaned describes one cleaning of the work folder.
type Cleaned struct {
	Bytes   int64 // of the work folder, after cleaning
	Removed int64 // bytes
	Over    bool  // still above the limit: volumes of Concourse, which only the web removes
}

// cleanLeftovers removes containers of a previous process. Concourse's worker on Windows
// knows containers only in memory, so it never removes these. Call it before the worker
// starts.
func cleanLeftovers(workDir string) error { return removeAll(filepath.Join(workDir, "containers")) }

// entry is a file or link in a folder of tasks.
type entry struct {
	path string
	size int64
	used time.Time
}

// clean keeps the work folder within limit bytes. It removes files of tasks that Concourse
// does not know, the oldest first, and never a file that changed in the last hour. Volumes
// belong to Concourse. It follows no link.
func clean(workDir string, limit int64, now time.Time) (c Cleaned, err error) {
	c.Bytes, _ = sizeOf(workDir)
	if c.Bytes <= limit {
		return c, nil
	}
	var all []entry
	for _, dir := range []string{temp(workDir), cache(workDir)} {
		all = append(all, entries(dir)...)
	}
	slices.SortFunc(all, func(a, b entry) int { return a.used.Compare(b.used) })
	for _, e := range all {
		if c.Bytes <= limit || now.Sub(e.used) < minAge {
			break
		}
		if removed := os.Remove(e.path); removed != nil { // such as open in a task
			err = removed
			continue
		}
		c.Bytes, c.Removed = c.Bytes-e.size, c.Removed+e.size
	}
	if c.Over = c.Bytes > limit; !c.Over {
		err = nil
	}
	removeEmpty(temp(workDir), now)
	removeEmpty(cache(workDir), now)
	return c, err
}

// sizeOf returns the size of all files below a folder.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file that is removed meanwhile has no size
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size, err
}

// entries returns the files and links below a folder.
func entries(dir string) (all []entry) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			e := entry{path: path, used: info.ModTime()}
			if info.Mode().IsRegular() {
				e.size = info.Size()
			}
			all = append(all, e)
		}
		return nil
	})
	return all
}

// removeEmpty removes old empty folders below dir, the deepest first.
func removeEmpty(dir string, now time.Time) {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != dir {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, d := range slices.Backward(dirs) {
		if info, err := os.Lstat(d); err == nil && now.Sub(info.ModTime()) >= minAge {
			_ = os.Remove(d) // fails for a folder with content
		}
	}
}

// removeAll removes a folder with its content, or a file. It follows no link. os.RemoveAll
// needs a file system with the delete semantics of POSIX, and os.Remove none.
func removeAll(path string) error {
	var all []string
	err := filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		all = append(all, name)
		return err
	})
	for _, name := range slices.Backward(all) {
		if removed := os.Remove(name); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}
