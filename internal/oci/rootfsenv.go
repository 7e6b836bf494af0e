package oci

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/rawjson"
)

// rootfsEnv is one entry of Config.RootfsEnv.
type rootfsEnv struct {
	dir string // absolute and clean
	env []string
}

func decodeRootfsEnv(v rawjson.Value) (all []rootfsEnv, err error) {
	return all, fields(v, func(dir string, v rawjson.Value) error {
		if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" || strings.IndexByte(dir, 0) >= 0 {
			return fmt.Errorf("%q is not the clean absolute path of a directory", dir)
		}
		env, invalid, err := pairs(v)
		if err != nil {
			return err
		}
		if len(invalid) > 0 {
			return fmt.Errorf("%q can't be set as an environment variable", invalid[0])
		}
		all = append(all, rootfsEnv{dir, env})
		return nil
	})
}

// rootfsDefaults is the environment for what the container's image has. It is a
// convenience: an image that can't be looked into gets none of it.
func (b bundle) rootfsDefaults(all []rootfsEnv, doc *rawjson.Doc, f facts) (env []string, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	rootfs, err := doc.Root().Of("root", rawjson.Object)
	if err != nil {
		return nil, err
	}
	at, err := rootfs.StringOf("path")
	if err != nil {
		return nil, err
	}
	fd, err := unix.Openat(b.fd, at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // an absolute one is taken as it is
	if err != nil {
		return nil, nil // runc says what is wrong with it
	}
	defer unix.Close(fd)
	for _, e := range all {
		if _, mounted := f.mountAt(e.dir); mounted || holds(fd, e.dir) {
			env = append(env, e.env...)
		}
	}
	return env, nil
}

// holds tells whether a root file system has the directory. The image made all
// that is in there: no link leads out of it, none of the kernel's own is taken,
// and what is found is not read.
func holds(rootfs int, dir string) bool {
	fd, err := unix.Openat2(rootfs, dir[1:], &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}
