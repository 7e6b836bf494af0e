package debian

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// packages are those beside minbase: systemd for what boots it, udev for its
// udevadm, and what Concourse connects its containers with.
const packages = "systemd-sysv,udev,ca-certificates,iproute2,iptables"

// BaseEnv names another system than this machine's: a mirror and its suite, such as
// "http://archive.ubuntu.com/ubuntu jammy".
const BaseEnv = "TEST_BASE"

// Named is the system that BaseEnv names; "" where it names none.
func Named() (mirror, suite string, err error) {
	named := os.Getenv(BaseEnv)
	if named == "" {
		return "", "", nil
	}
	mirror, suite, ok := strings.Cut(named, " ")
	if !ok {
		return "", "", fmt.Errorf("cannot tell the system of %s=%q: want a mirror and a suite", BaseEnv, named)
	}
	return mirror, suite, nil
}

// Base is the path of the tar of the smallest system that boots: this machine's
// release, or what BaseEnv names. It is made where there is none in the cache, which
// needs root and debootstrap.
func Base(ctx context.Context) (string, error) {
	mirror, suite, err := Named()
	if err == nil && suite == "" {
		_, suite, err = Mirror()
	}
	if err != nil {
		return "", err
	}
	return System{Name: "debian", Mirror: mirror, Suite: suite, Packages: packages}.Tar(ctx)
}

// System is a Debian of packages and files.
type System struct {
	Name, Suite string
	Mirror      string // this machine's where it is ""
	Packages    string // comma separated, beside minbase
	Script      string // run by its sh before it is packed; $MIRROR is this machine's
	Tree        string // a folder whose files it has, at the script, too; or ""
}

// makeSystem prints the tar. It is made in memory: dpkg syncs every file, and what
// ends it leaves nothing.
const makeSystem = `mount -t tmpfs -o mode=755 tmpfs "$1" &&
scripts=/usr/share/debootstrap/scripts && script=$3 && { [ -e "$scripts/$script" ] || script=jammy; } && # it knows an Ubuntu older than itself
debootstrap --variant=minbase --include="$2" "$3" "$1" "$MIRROR" "$scripts/$script" >&2 &&
{ [ -z "$5" ] || cp -RT "$5" "$1"; } &&
{ [ -z "$4" ] || unshare --mount --pid --fork --kill-child --mount-proc="$1/proc" chroot "$1" sh -ec "$4" >&2; } &&
tar --numeric-owner --xattrs --xattrs-include='*' -C "$1" -cf - .`

// File is the name of the tar in the cache.
func (s System) File() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q", s.Packages, s.Script, makeSystem)
	if s.Tree != "" {
		if err := hashTree(h, s.Tree); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s-%s-%s-%x.tar", s.Name, s.Suite, runtime.GOARCH, h.Sum(nil)[:6]), nil
}

// Tar is the path of the system's tar, made where there is none in the cache.
// What makes it ends with the context, or with the program.
func (s System) Tar(ctx context.Context) (string, error) {
	mirror, err := s.Mirror, error(nil)
	if mirror == "" {
		mirror, _, err = Mirror()
	}
	if err != nil {
		return "", err
	}
	name, err := s.File()
	if err != nil {
		return "", err
	}
	return Cached(name, func(out *os.File) error {
		dir, err := os.MkdirTemp("", "debian-")
		if err != nil {
			return err
		}
		defer os.Remove(dir) // the tmpfs on it was the namespace's
		if err := run(ctx, out, []string{"MIRROR=" + mirror}, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "--mount-proc",
			"sh", "-c", makeSystem, "sh", dir, s.Packages, s.Suite, s.Script, s.Tree); err != nil {
			return fmt.Errorf("cannot make a Debian of %s %s: %w", mirror, s.Suite, err)
		}
		return nil
	})
}

// hashTree adds the names and contents of a folder's files.
func hashTree(h io.Writer, dir string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		link, err := os.Readlink(path)
		if errors.Is(err, syscall.EINVAL) { // a file
			data, err := os.ReadFile(path)
			fmt.Fprintf(h, "%q %q", strings.TrimPrefix(path, dir), data)
			return err
		}
		fmt.Fprintf(h, "%q -> %q", strings.TrimPrefix(path, dir), link)
		return err
	})
}
