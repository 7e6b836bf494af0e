package debian

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Cached is the path of a file in the cache, which is written unless it is there.
// A file with its name is a whole one: where writing fails or is killed there is
// none, and of several programs that write at once each has one of them.
func Cached(name string, write func(*os.File) error) (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	unfinished, err := os.CreateTemp(dir, name+".unfinished-")
	if err != nil {
		return "", err
	}
	defer os.Remove(unfinished.Name()) // gone once it is renamed
	defer unfinished.Close()
	if err := write(unfinished); err != nil {
		return "", err
	}
	if err := unfinished.Close(); err != nil {
		return "", err
	}
	return file, os.Rename(unfinished.Name(), file)
}

// folder is that of the cache: below $XDG_CACHE_HOME or $HOME, or where neither
// is set, as under CI, among the temporary files. Root unpacks what is in it, so
// it must be of this user.
func folder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "concourse-ci-machine-tests")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if s, ok := st.Sys().(*syscall.Stat_t); !ok || !st.IsDir() || int(s.Uid) != os.Geteuid() {
		return "", fmt.Errorf("cannot keep files in %s: it is not a folder of this user's; remove it", dir)
	}
	return dir, nil
}

// Has says whether a file is in the cache.
func Has(name string) bool {
	dir, err := folder()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(dir, name))
	return err == nil
}
