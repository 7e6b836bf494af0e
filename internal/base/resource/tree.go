package resource

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// RemoveTree removes a file, or a folder with its content. A file system that is mounted at
// the path or below it stays with its content, and so do the folders that lead to it.
// RemoveTree returns the mounts that stay.
func RemoveTree(r host.Root, p string) (mounted []string, err error) {
	up, err := r.Resolve(path.Dir(p)) // mountinfo has no links
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p = path.Join(up, path.Base(p))
	mounts, err := readMounts(r)
	if err != nil {
		return nil, err
	}
	if mounts.mountOf(p).Mountpoint == p {
		mounted = append(mounted, p)
	}
	for _, m := range mounts.below(p) {
		mounted = append(mounted, m.Mountpoint)
	}
	return mounted, removeExcept(r, p, mounted)
}

// removeExcept removes a path, except some paths at and below it.
func removeExcept(r host.Root, p string, except []string) error {
	leads := false
	for _, e := range except {
		if e == p {
			return nil
		}
		leads = leads || strings.HasPrefix(e, p+"/")
	}
	if !leads {
		return os.RemoveAll(r.Path(p))
	}
	entries, err := r.ReadDir(p)
	for _, e := range entries {
		err = errors.Join(err, removeExcept(r, path.Join(p, e.Name()), except))
	}
	return err
}
