package hooks

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// copyTree copies what is in a folder to another one, with owners, modes and dates.
func copyTree(from, to string) error {
	type dated struct {
		path string
		at   time.Time
	}
	var folders []dated // dated last, as what is made in them changes their dates
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		copied := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			folders = append(folders, dated{copied, info.ModTime()})
			err = os.MkdirAll(copied, 0o700)
		case d.Type()&fs.ModeSymlink != 0:
			var target string
			if target, err = os.Readlink(path); err == nil {
				err = os.Symlink(target, copied)
			}
		default:
			var data []byte
			if data, err = os.ReadFile(path); err == nil {
				// Programs of other tests would have it open (ETXTBSY).
				syscall.ForkLock.RLock()
				err = os.WriteFile(copied, data, 0o600)
				syscall.ForkLock.RUnlock()
			}
		}
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t)
		if err := os.Lchown(copied, int(owner.Uid), int(owner.Gid)); err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		if err := os.Chmod(copied, info.Mode()); err != nil {
			return err
		}
		return os.Chtimes(copied, info.ModTime(), info.ModTime())
	})
	for _, f := range folders {
		if err == nil {
			err = os.Chtimes(f.path, f.at, f.at)
		}
	}
	return err
}
