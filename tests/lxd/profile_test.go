//go:build e2e

package lxd

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const preseed = `config: {}
storage_pools: [{name: default, driver: dir}]
profiles: [{name: default, devices: {root: {type: disk, path: /, pool: default}}}]
`

// profile is what Juju hands on to LXD from a charm's lxd-profile.yaml.
type profile struct {
	Description string                       `yaml:"description"`
	Config      map[string]string            `yaml:"config"`
	Devices     map[string]map[string]string `yaml:"devices"`
}

// need skips where this machine has no LXD to run privately. Under `make e2e`
// (E2E=1) only a release without the package is a reason to skip. more are other
// programs that the test needs.
func need(t *testing.T, more ...string) {
	t.Helper()
	for _, p := range strings.Split(os.Getenv("E2E_WITHOUT"), ",") {
		if p == "lxd" || p == "lxd-client" {
			t.Skipf("this release has no package %s", p)
		}
	}
	missing := t.Skipf
	if os.Getenv("E2E") == "1" {
		missing = t.Fatalf
	}
	if os.Getuid() != 0 {
		missing("needs root")
	}
	for _, name := range more {
		if _, err := exec.LookPath(name); err != nil {
			missing("%v; `make e2e` installs it", err)
		}
	}
	for _, name := range []string{"lxc", "busybox", "unshare", "nsenter", "lxd"} {
		path, err := exec.LookPath(name)
		if err != nil {
			missing("%v; `make e2e` installs it", err)
		}
		path, err = filepath.EvalSymlinks(path)
		require.NoError(t, err)
		f, err := elf.Open(path)
		if err != nil || filepath.Base(path) == "snap" {
			missing("%s is not Debian's: %s", name, path)
		}
		f.Close()
	}
}

func TestProfileOnRealLXD(t *testing.T) {
	need(t)
	groups, links := cgroups(t), networkLinks(t)
	data, err := os.ReadFile("../../lxd-profile.yaml")
	require.NoError(t, err)
	var p profile
	require.NoError(t, yaml.Unmarshal(data, &p))
	data, err = yaml.Marshal(p)
	require.NoError(t, err)

	t.Cleanup(func() { removeCgroups(t, groups) }) // runs after start's own
	d := start(t)
	tinyImage(t, d.dir+"/image.tar")
	d.run(preseed, "lxd", "init", "--preseed")
	d.run("", "lxc", "image", "import", d.dir+"/image.tar", "--alias", "tiny")
	d.run("", "lxc", "profile", "create", "juju-charm")
	d.run(string(data), "lxc", "profile", "edit", "juju-charm")
	// The name makes its control groups ours on a machine that has an LXD.
	unit := filepath.Base(d.dir)

	d.sub(t, "a unit starts on a host without kfd", func(t *testing.T) {
		d.run("", "lxc", "launch", "-q", "tiny", unit, "-p", "default", "-p", "juju-charm")
		out, err := d.inside(unit, "ls /dev")
		require.NoError(t, err, out)
		require.NotContains(t, strings.Fields(out), "kfd")
	})
	d.sub(t, "kfd appears in the running unit when the host gets it", func(t *testing.T) {
		d.onHost("mknod", "-m", "600", "/dev/kfd", "c", "1", "3") // null's numbers: every kernel has a driver for them
		requireKFD(t, d, unit)
	})
	d.sub(t, "a unit that starts after the driver has kfd at once", func(t *testing.T) {
		d.run("", "lxc", "restart", "-f", unit)
		requireKFD(t, d, unit)
	})
	d.sub(t, "kfd goes when the host loses it", func(t *testing.T) {
		d.onHost("rm", "/dev/kfd")
		require.Eventually(t, func() bool {
			_, err := d.inside(unit, "[ ! -e /dev/kfd ]")
			return err == nil
		}, patience, 50*time.Millisecond)
	})
	d.sub(t, "the unit may run containers", func(t *testing.T) {
		require.Equal(t, "true", expanded(t, d, unit).Config["security.nesting"])
	})
	d.sub(t, "the profile brings no gpu, which would keep units from starting", func(t *testing.T) {
		for name, device := range expanded(t, d, unit).Devices {
			require.NotEqual(t, "gpu", device["type"], name)
		}
		other := unit + "-gpu"
		d.run("", "lxc", "init", "tiny", other)
		d.run("", "lxc", "config", "device", "add", other, "gpu", "gpu", "vendorid=1002", "productid=0000") // no such card anywhere
		out, err := d.try("", "lxc", "start", other)
		require.Error(t, err)
		require.Contains(t, out, "Failed to detect requested GPU device")
	})
	d.sub(t, "nothing is left behind", func(t *testing.T) {
		d.run("", "lxc", "delete", "-f", unit)
		require.NotContains(t, strings.Fields(d.run("", "lxc", "list", "-f", "csv", "-c", "n")), unit)
		require.False(t, slices.ContainsFunc(cgroups(t), func(path string) bool { return strings.HasSuffix(path, "."+unit) }))
		d.stop()
		removeCgroups(t, groups) // lxc.pivot
		nothingLeft(t, d, groups, links)
	})
}

// requireKFD waits until /dev/kfd in the unit is the host's device, opens for
// reading and writing, and belongs to root:video.
func requireKFD(t *testing.T, d *daemon, unit string) {
	t.Helper()
	var out string
	require.Eventually(t, func() bool {
		var err error
		out, err = d.inside(unit, "stat -c '%t:%T %u:%g' /dev/kfd && exec 3<>/dev/kfd")
		return err == nil
	}, patience, 50*time.Millisecond)
	require.Equal(t, "1:3 0:44", out)
}

type instance struct {
	Config  map[string]string            `json:"expanded_config"`
	Devices map[string]map[string]string `json:"expanded_devices"`
}

// expanded is the instance as LXD sees it with all its profiles.
func expanded(t *testing.T, d *daemon, name string) (i instance) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(d.run("", "lxc", "query", "/1.0/instances/"+name)), &i))
	return i
}
