//go:build e2e

package lxd

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

const (
	worker  = "concourse-worker.service"
	pebble  = "concourse-pebble.service"
	refresh = "concourse-cdi-refresh.path"
	ready   = "active: Worker ready (v8.2.5) (GPU: 1x AMD)"
	mirrors = "http://127.0.0.1:8970"
)

const real = `real: LXD, its gpu, unix-char, disk and proxy devices, systemd, apt, containerd, runc, the packed charm, Juju's agent and hook tools
stand-ins: the controller, the program concourse, the GPUs' sysfs files and the devices behind their nodes, amd-container-toolkit and
its repository's key (the one that dispatch trusts in place of AMD's), a Debian that says it is Ubuntu 24.04 (unless TEST_BASE names one)`

// charmProfile is what Juju hands on to LXD.
func charmProfile(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../lxd-profile.yaml")
	require.NoError(t, err)
	var p profile
	require.NoError(t, yaml.Unmarshal(data, &p))
	data, err = yaml.Marshal(p)
	require.NoError(t, err)
	return string(data)
}

// prepareUnit makes all that a unit needs, and the host with its LXD.
func prepareUnit(t *testing.T) *unit {
	t.Helper()
	dir, err := os.MkdirTemp("", "lxd-parts-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	for _, sub := range []string{"parts", "fake"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	require.NoError(t, os.Chmod(dir, 0o755)) // the container's root must pass
	type image struct {
		file string
		err  error
	}
	var system image
	ctx, cancel := context.WithCancel(context.Background())
	made := make(chan struct{})
	t.Cleanup(func() { cancel(); <-made }) // even if a later step fails
	go func() {
		defer close(made)
		start := time.Now()
		system.file, system.err = debian(ctx)
		takes("a Debian with systemd", start)
	}()
	keys := newSigner(t, filepath.Join(dir, "gpg"))
	buildParts(t, filepath.Join(dir, "parts"), keys)
	serve(t, filepath.Join(dir, "apt.sock"), repository(t, dir, keys))
	lxdhost.FakeGPUs(t, filepath.Join(dir, "fake"))
	level := filepath.Join(dir, "fake/sys/bus/pci/devices", lxdhost.AMDPCI, "power_dpm_force_performance_level")
	require.NoError(t, os.WriteFile(level, []byte("auto\n"), 0o644))
	<-made
	require.NoError(t, system.err)

	start := time.Now()
	d := lxdhost.Start(t, filepath.Join(dir, "fake"))
	d.Run(preseed, "lxd", "init", "--preseed")
	d.Run("", "lxc", "image", "import", system.file, "--alias", "debian")
	u := &unit{d: d, name: filepath.Base(d.Dir), parts: filepath.Join(dir, "parts"), level: level,
		options: map[string]any{"mode": "worker", "compute-runtime": "rocm", "amd-container-toolkit": "auto", "rocm-base-url": mirrors, "worker-drain-timeout": "10s"}}
	d.Run("", "lxc", "profile", "create", "juju-charm")
	d.Run(charmProfile(t), "lxc", "profile", "edit", "juju-charm")
	d.Run("", "lxc", "init", "-q", "debian", u.name, "-p", "default", "-p", "juju-charm")
	d.Run("", "lxc", "config", "set", u.name, "raw.lxc", lxdhost.InUnit(filepath.Join(dir, "fake"), "sys/class"))
	u.device("add", "parts", "disk", "source="+u.parts, "path="+parts, "readonly=true")
	u.device("add", "mirror", "proxy", "listen=tcp:"+strings.TrimPrefix(mirrors, "http://"), "connect=unix:"+filepath.Join(dir, "apt.sock"), "bind=instance")
	takes("LXD with the unit's container", start)
	return u
}

// card is what LXD reports a GPU.
type card struct {
	VendorID string `json:"vendor_id"`
	PCI      string `json:"pci_address"`
	Driver   string
	DRM      struct{ ID int }
}

func TestCharmOnRealLXD(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("AMD has packages for amd64 only")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // if a user's may not lead
	lxdhost.Need(t, "go", "debootstrap", "gpg", "dpkg-deb", "containerd", "containerd-shim-runc-v2", "ctr", "runc")
	groups, links := lxdhost.Cgroups(t), lxdhost.NetworkLinks(t)
	t.Cleanup(func() { lxdhost.RemoveCgroups(t, groups) }) // runs after start's own
	t.Log(real)
	u := prepareUnit(t)
	d := u.d
	began := time.Now()

	d.Sub(t, "LXD lists the GPUs of both vendors", func(t *testing.T) {
		var r struct{ GPU struct{ Cards []card } }
		require.NoError(t, json.Unmarshal([]byte(d.Run("", "lxc", "query", "/1.0/resources")), &r))
		ids := map[string]int{}
		for _, c := range r.GPU.Cards {
			if c.PCI == lxdhost.AMDPCI || c.PCI == lxdhost.NVIDIAPCI {
				ids[c.VendorID] = c.DRM.ID
			}
		}
		require.Equal(t, map[string]int{"1002": 0, "10de": 1}, ids)
	})
	d.Sub(t, "the GPU that is passed by its id and kfd of the charm's profile are in the unit, the other GPU is not", func(t *testing.T) {
		u.device("add", "gpu0", "gpu", "id="+lxdhost.AMDID, "gid=44")
		d.Run("", "lxc", "start", u.name)
		u.up()
		require.Equal(t, []string{"/dev/dri/card0", "/dev/dri/renderD128", "/dev/kfd"}, u.nodes())
		require.Equal(t, "0:44\n0:44", u.must("stat -c %u:%g /dev/dri/renderD128 /dev/kfd"))
	})
	before := u.files()
	d.Sub(t, "Juju's hooks bring the worker up, with AMD's toolkit from a signed repository", func(t *testing.T) {
		u.startAgent(nil)
		require.Equal(t, []string{"install", "peers-relation-created", "flight-relation-created", "leader-elected", "config-changed", "start",
			"flight-relation-joined web/0", "flight-relation-changed web/0"}, u.settle(nil))
		u.settled()
		require.Equal(t, "install ok installed 1.3.0", u.must("dpkg-query -W -f '${Status} ${Version}' "+toolkit))
		require.Equal(t, []string{worker, pebble, refresh}, u.active(worker, pebble, refresh))
		require.Empty(t, u.failed(), "units of systemd that failed")
	})
	d.Sub(t, "root alone reads what may hold a secret", func(t *testing.T) {
		require.Equal(t, "600\n600\n700", u.must("stat -c %a /etc/concourse-ci-machine/wrapper.json /var/lib/concourse-worker/keys/worker_key /var/lib/concourse-worker/keys"))
	})
	d.Sub(t, "another hook changes nothing", func(t *testing.T) {
		require.NotContains(t, u.hook("update-status"), "plan:\n")
		require.Equal(t, ready, u.said())
	})
	u.shows(t)
	u.serves(t)
	u.checks(t)
	u.givesBack(t)
	u.restarts(t)
	u.folders(t)
	u.changes(t)
	u.reboots(t)
	u.leaves(t, before)
	takes("the unit's whole life", began)
	d.Sub(t, "nothing is left behind", func(t *testing.T) {
		u.agent.stop()
		d.Run("", "lxc", "delete", "-f", u.name)
		d.Stop()
		lxdhost.RemoveCgroups(t, groups) // lxc.pivot
		lxdhost.NothingLeft(t, d, groups, links)
	})
}
