//go:build e2e

package journeys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/tests/standin"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"

	// The packages contain programs that make builds, of which go test has no record: this
	// makes a changed program a reason to run these tests again.
	_ "github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
	_ "github.com/fourdollars/concourse-ci-machine/internal/exporter"
)

// tools lists the packages of the machine in addition to a Debian that boots, with programs
// that the pages take for granted.
const tools = "systemd-sysv,udev,ca-certificates,iproute2,iptables,sudo,bsdutils,curl,jq,busybox-static"

// programs installs the engines of docker-podman.md, which debootstrap can't configure, and
// promtool of monitoring.md without Prometheus.
const programs = `export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install --yes -q --no-install-recommends docker.io podman crun uidmap slirp4netns fuse-overlayfs dbus-user-session
cd /tmp
apt-get download -q prometheus
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xC / ./usr/bin/promtool
rm prometheus_*.deb`

// missing returns the reason why the tests can't run here, or "".
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed for namespaces"
	}
	return suite.Lacks("iproute2 mount util-linux debootstrap busybox-static containerd runc golang make",
		"ip", "mount", "nsenter", "debootstrap", "busybox", "containerd", "runc", "go", "make")
}

var (
	groups string // folder of control groups
	built  string // folder with the packages, the release and the Debian
)

func TestMain(m *testing.M) {
	guest.Intercept()
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	os.Exit(suite.Namespaced{Name: "the pages", Missing: missing(),
		Flags:   syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		Outside: prepare, Inside: inside}.Run(m))
}

// systemTar returns the tar of the machine's Debian.
func systemTar(ctx context.Context) (string, error) {
	_, release, err := debian.Mirror()
	if err != nil {
		return "", err
	}
	return debian.System{Name: "journeys", Suite: release, Packages: tools, Script: programs}.Tar(ctx)
}

// prepare downloads packages, and makes the control groups.
func prepare() (string, func() error, error) {
	ctx := context.Background() // it ends with this program
	_, err := systemTar(ctx)
	if err == nil {
		_, err = debian.Repository(ctx)
	}
	if err != nil {
		return "", nil, err
	}
	return guest.MakeGroups()
}

// inside prepares the network and the files of the machine.
func inside(m *testing.M, groupsDir string) int {
	groups = groupsDir
	if err := guest.MakeNetwork(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot set up the namespaces:", err)
		return 1
	}
	return suite.InFolder(m, func(dir string) error {
		built = dir
		return errors.Join(suite.Packages(filepath.Join(dir, "packages"), nil), makeReleases(), makeSystem())
	})
}

// release returns the path of the tarball of Concourse's release, as a mirror has it.
func release() string { return releaseOf("8.2.5") }

// releaseOf returns the path of the tarball of a version.
func releaseOf(version string) string {
	return filepath.Join(built, fmt.Sprintf("mirror/v%s/concourse-%[1]s-linux-%s.tgz", version, runtime.GOARCH))
}

// nextRelease makes from the release $1 the next one, $2, with the next version's number in its
// program, and the checksums that a mirror has beside both.
const nextRelease = `next=$(dirname "$2")
mkdir "$next" "$3"
tar -xzf "$1" -C "$3"
sed -i 's/8\.2\.5/8.2.6/g' "$3/concourse/bin/concourse"
tar -cf "$2" -I 'gzip -1' -C "$3" concourse
rm -r "$3"
for file in "$1" "$2"; do (cd "$(dirname "$file")" && sha256sum "$(basename "$file")" >"$file.sha256"); done`

// makeReleases makes the tarballs of the mirror.
func makeReleases() error {
	if err := makeRelease(); err != nil {
		return err
	}
	return debian.Run(context.Background(), "sh", "-ec", nextRelease, "sh", release(), releaseOf("8.2.6"),
		filepath.Join(built, "next"))
}

// makeRelease makes the tarball of the named release, or of a stand-in.
func makeRelease() error {
	if err := os.MkdirAll(filepath.Dir(release()), 0o755); err != nil {
		return err
	}
	if err := makeImages(context.Background()); err != nil {
		return err
	}
	if os.Getenv(suite.ReleaseEnv) != "" {
		return nil
	}
	if err := suite.Build(built, "./tests/standin/concourse"); err != nil {
		return err
	}
	return standin.Release(release(), filepath.Join(built, "concourse"))
}

// makeSystem unpacks the Debian of the machine.
func makeSystem() error {
	tar, err := systemTar(context.Background())
	if err != nil {
		return err
	}
	dir := filepath.Join(built, "debian")
	if err := debian.Unpack(context.Background(), tar, dir); err != nil {
		return err
	}
	return guest.Prepare(dir)
}
