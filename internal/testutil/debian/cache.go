package debian

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Cached returns the path of a file in the cache, and writes the file if it is missing. A
// file with its name is always complete. If several programs write it at once, each of them
// gets a complete one.
func Cached(name string, write func(*os.File) error) (string, error) {
	dir, err := CacheFolder()
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
	defer os.Remove(unfinished.Name()) // fails after the rename
	defer unfinished.Close()
	if err := write(unfinished); err != nil {
		return "", err
	}
	if err := unfinished.Close(); err != nil {
		return "", err
	}
	return file, os.Rename(unfinished.Name(), file)
}

// CacheFolder returns the folder of the cache, and makes it if it is missing. It is below
// $XDG_CACHE_HOME or $HOME, or among the temporary files if neither is set, as under CI. Root
// unpacks its content, so it must belong to this user.
func CacheFolder() (string, error) {
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

// Has reports whether a file is in the cache.
func Has(name string) bool {
	dir, err := CacheFolder()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(dir, name))
	return err == nil
}
