//go:build controller

package controller

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

const real = `real: Juju 4.1-beta2 with its controller, agents, client and hook tools, LXD with its network, systemd, the packed charm,
scripts/pass-gpu.sh
stand-ins: the controller's charm (testdata/charms), the program concourse, the GPUs' sysfs files and the devices behind their nodes,
machines of a Debian that says it is Ubuntu 24.04, without sources of packages (amd-container-toolkit can't be had there)`

const withRelease = `real with CONCOURSE_RELEASE: scripts/deploy-test.sh, Concourse's web, workers, tasks and fly, PostgreSQL
stand-ins there: PostgreSQL's charm (testdata/charms), GitHub (a mirror of the tests has the release, and the same under another number
to upgrade from), registry-image (testdata/registry-image: every image is a busybox, whose rocminfo, rocm-smi and hipcc compute nothing),
and verify-gpu's complaint that the render node is no DRM device counts as passed`

const withPredecessor = `real with PREDECESSOR_CHARM besides: the Python charm's hooks, which fetch Concourse from GitHub's address, and the keys that it makes
stand-ins there: the server at that address, the same mirror, by /etc/hosts and a CA of the tests
left out there: the Python charm on GPUs (it fetches AMD's and NVIDIA's tools), on shared storage, and in mode auto`

const leftOut = `left out: deploy-test.sh's steps cuda (NVIDIA's toolkit comes from its repository) and vault (its charm from Charmhub);
a lost web whose unit is removed by force: this Juju does not tell its workers of that;
without CONCOURSE_RELEASE all of deploy-test.sh, and a web with its database and tasks: an application of mode auto has none;
without PREDECESSOR_CHARM the Python charm`

// cachedEnv asks to skip what would first must build Juju.
const cachedEnv = "CONTROLLER_CACHED_ONLY"

func TestCharmOnAWholeController(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the charms of these tests are for amd64 machines")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // if a user's may not lead
	lxdhost.Need(t, "go", "debootstrap", "dnsmasq", "ip", "tar", "containerd", "containerd-shim-runc-v2", "runc")
	if os.Getenv(cachedEnv) != "" && !cached(t) {
		t.Skip("Juju's programs and the machines' image are not in the cache folder: make test-controller builds them, in about half an hour")
	}
	t.Log(real)
	t.Log(withRelease)
	t.Log(withPredecessor)
	t.Log(leftOut)
	moreWatches(t)
	groups, links := lxdhost.Cgroups(t), lxdhost.NetworkLinks(t)
	t.Cleanup(func() { lxdhost.RemoveCgroups(t, groups) }) // runs after the host's own
	s := prepare(t)
	start := time.Now()
	s.Sub(t, "a controller comes up", s.bootstrap)
	takes("the controller", start)
	s.worker(t)
	s.leader(t)
	s.concourse(t)
	s.Sub(t, "nothing is left behind", func(t *testing.T) {
		s.Stop()
		lxdhost.RemoveCgroups(t, groups) // lxc.pivot
		lxdhost.NothingLeft(t, s.Host, groups, links)
	})
}

// cached reports whether nothing must be built.
func cached(t *testing.T) bool {
	t.Helper()
	system, err := image().File()
	require.NoError(t, err)
	juju, err := programsFile()
	require.NoError(t, err)
	return debian.Has(system) && debian.Has(juju)
}

// moreWatches raises, for the whole machine, how many may watch files: each
// container's systemd takes a dozen, and with 128 the eighth has no network.
func moreWatches(t *testing.T) {
	t.Helper()
	const file, enough = "/proc/sys/fs/inotify/max_user_instances", 1024
	if now := readNumber(t, file); now < enough {
		t.Logf("%s: %d, and %d while this runs", file, now, enough)
		writeNumber(t, file, enough)
		t.Cleanup(func() { writeNumber(t, file, now) })
	}
}
