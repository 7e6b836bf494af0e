//go:build e2e

package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"

	// The packages contain programs that make builds, of which go test has no record: this
	// makes a changed program a reason to run these tests again.
	_ "github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
	_ "github.com/fourdollars/concourse-ci-machine/internal/exporter"
)

// missing returns why the tests can't run here, "" if they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed for a chroot"
	}
	return suite.Lacks("debootstrap make golang util-linux lintian gpg", "debootstrap", "make", "go", "unshare", "lintian", "gpg")
}

func need(t *testing.T) { suite.Need(t, missing()) }

// built is the folder with the packages of this machine's architecture, newer the one with
// their next version, and made the folder with what they are made of.
var built, newer, made string

func TestMain(m *testing.M) {
	switch why := missing(); {
	case why != "" && os.Getenv("E2E") == "1":
		fmt.Fprintln(os.Stderr, "cannot run the tests of the packages:", why)
		os.Exit(1)
	case why != "":
		os.Exit(m.Run())
	}
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	os.Exit(suite.InFolder(m, func(dir string) error {
		built, made = filepath.Join(dir, "packages"), filepath.Join(dir, "made")
		newer = filepath.Join(built, "newer")
		return errors.Join(makeSystem(), makePackages())
	}))
}

// makePackages makes them into built, and keeps what they are made of in made.
func makePackages() error {
	return suite.Packages(built, func(bin string) error {
		var all error
		for _, name := range []string{runtime.GOARCH, "tree"} {
			all = errors.Join(all, os.CopyFS(filepath.Join(made, name), os.DirFS(filepath.Join(bin, name))))
		}
		return errors.Join(all, packer(hosttest.Source(), "1.2.4", suite.PackageCompression, newer))
	})
}

// packer makes the packages of a version from a checkout.
func packer(dir, version, compression, out string) error {
	c := exec.Command(filepath.Join(hosttest.Source(), "bin/packer"), "-bin", "bin/packages/"+runtime.GOARCH, "-tree",
		"bin/packages/tree", "-arch", runtime.GOARCH, "-version", version, "-compression", compression, "-o", out)
	c.Dir, c.Env = dir, append(os.Environ(), "TZ=Asia/Tokyo", "HOSTNAME=other", "LC_ALL=C")
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make the packages of %s: %w\n%s", version, err, text)
	}
	return nil
}

// systemTar is the path of a Debian with systemd, rpm, ssh and shells.
var systemTar string

func makeSystem() error {
	_, release, err := debian.Mirror()
	if err != nil {
		return err
	}
	systemTar, err = debian.System{Name: "packages", Suite: release,
		Packages: "systemd-sysv,udev,ca-certificates,rpm,openssh-server,openssh-client,sudo,runc,busybox-static,bash-completion,zsh,fish,man-db"}.Tar(context.Background())
	return err
}

// setup makes the machine of a fixture host in the Debian: its sysfs is bound at /sys, and
// /dev gets its nodes. save prints all files that stay on disk. show writes a result.
const setup = `
mount -t tmpfs -o mode=755 tmpfs /dev
mkdir /dev/dri /dev/pts /dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts /dev/pts && ln -s pts/ptmx /dev/ptmx
for n in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 /dev/${n%%:*} c 1 ${n##*:}; done
mknod -m 666 /dev/tty c 5 0
mknod -m 666 /dev/kfd c 235 0
for n in 128 129 130 131; do [ ! -e /sys/class/drm/renderD$n ] || mknod -m 666 /dev/dri/renderD$n c 226 $n; done
for n in 0 1 2 3 4; do [ ! -e /sys/class/drm/card$n ] || mknod -m 666 /dev/dri/card$n c 226 $n; done
mount --bind /host/proc/devices /proc/devices
state() {
	cd /
	for way in "-printf %y|%m|%U:%G|%p|%l\n" "-type f -exec sha256sum {} +"; do
		find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./host -o -path ./in -o -path ./out \
			-o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./root/.rpmdb -o -path ./var/log -o -path ./var/cache \) -prune -o $way | sort
	done
}
`

// inside runs a script on a machine with the GPUs of a fixture host. What the script writes
// to /out is the result; the packages are in /in.
func inside(t *testing.T, host, script string) map[string]string {
	t.Helper()
	fixture, out := hosttest.Host(t, host), t.TempDir()
	err := debian.Inside(t.Context(), systemTar, setup+script, nil, built+":/in", out+":/out", fixture.Path("/")+":/host",
		fixture.Path("/sys")+":/sys")
	got := results(t, out)
	require.NoError(t, err, "%v", got)
	return got
}

// results returns the content of the files in a folder.
func results(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all[e.Name()] = string(data)
	}
	return all
}

// lines returns the lines of a text that contain a part.
func lines(text, part string) (found []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}

// differences returns the lines that only one of two texts has.
func differences(a, b string) (d []string) {
	in := func(all string) map[string]bool {
		m := map[string]bool{}
		for line := range strings.Lines(all) {
			m[line] = true
		}
		return m
	}
	left, right := in(a), in(b)
	for line := range strings.Lines(a) {
		if !right[line] {
			d = append(d, "-"+line)
		}
	}
	for line := range strings.Lines(b) {
		if !left[line] {
			d = append(d, "+"+line)
		}
	}
	return d
}
