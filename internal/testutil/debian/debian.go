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

// packages are added to minbase: systemd boots the system, udev has udevadm, and Concourse
// connects its containers with the others.
const packages = "systemd-sysv,udev,ca-certificates,iproute2,iptables"

// BaseEnv names another system than this machine's: a mirror and its suite, such as
// "http://archive.ubuntu.com/ubuntu jammy".
const BaseEnv = "TEST_BASE"

// Named returns the system that BaseEnv names, or "" without the variable.
func Named() (mirror, suite string, err error) {
	named := os.Getenv(BaseEnv)
	if named == "" {
		return "", "", nil
	}
	mirror, suite, ok := strings.Cut(named, " ")
	if !ok {
		return "", "", fmt.Errorf("cannot read the system of %s=%q: want a mirror and a suite", BaseEnv, named)
	}
	return mirror, suite, nil
}

// Base returns the path of the tar of the smallest system that boots: this machine's
// release, or the one that BaseEnv names. It is made if it is not in the cache, which needs
// root and debootstrap.
func Base(ctx context.Context) (string, error) {
	s, err := base()
	if err != nil {
		return "", err
	}
	return s.Tar(ctx)
}

// base returns the system of Base.
func base() (System, error) {
	mirror, suite, err := Named()
	if err == nil && suite == "" {
		_, suite, err = Mirror()
	}
	return System{Name: "debian", Mirror: mirror, Suite: suite, Packages: packages}, err
}

// System describes a Debian by its packages and files.
type System struct {
	Name, Suite string
	Mirror      string // "" for this machine's
	Packages    string // comma separated, in addition to minbase
	Script      string // run by the system's sh before it is packed; $MIRROR is this machine's
	Tree        string // folder of files that the system gets before the script, or ""
}

// makeSystem prints the tar. The system is made in memory: dpkg syncs every file, and a
// killed run leaves nothing.
const makeSystem = `mount -t tmpfs -o mode=755 tmpfs "$1" &&
scripts=${DEBOOTSTRAP_DIR:-/usr/share/debootstrap}/scripts && script=$3 &&
{ [ -e "$scripts/$script" ] || script=jammy; } && # an Ubuntu that is newer than debootstrap
debootstrap --variant=minbase --include="$2" "$3" "$1" "$MIRROR" "$scripts/$script" >&2 &&
{ [ -z "$5" ] || cp -RT "$5" "$1"; } &&
{ [ -z "$4" ] || unshare --mount --pid --fork --kill-child --mount-proc="$1/proc" chroot "$1" sh -ec "$4" >&2; } &&
tar --numeric-owner --xattrs --xattrs-include='*' -C "$1" -cf - .`

// File returns the name of the tar in the cache.
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

// Tar returns the path of the system's tar, and makes it if it is not in the cache. The
// programs that make it end with the context, or with this program.
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
		defer os.Remove(dir) // the tmpfs on it ended with its namespace
		if err := run(ctx, out, []string{"MIRROR=" + mirror}, "unshare", "--mount", "--pid", "--fork",
			"--kill-child", "--propagation", "private", "--mount-proc", "sh", "-c", makeSystem, "sh", dir, s.Packages,
			s.Suite, s.Script, s.Tree); err != nil {
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
