//go:build e2e

package lxd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
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

func TestProfileOnRealLXD(t *testing.T) {
	lxdhost.Need(t)
	groups, links := lxdhost.Cgroups(t), lxdhost.NetworkLinks(t)
	data, err := os.ReadFile("../../lxd-profile.yaml")
	require.NoError(t, err)
	var p profile
	require.NoError(t, yaml.Unmarshal(data, &p))
	data, err = yaml.Marshal(p)
	require.NoError(t, err)

	t.Cleanup(func() { lxdhost.RemoveCgroups(t, groups) }) // runs after start's own
	d := lxdhost.Start(t, "")
	lxdhost.TinyImage(t, d.Dir+"/image.tar")
	d.Run(preseed, "lxd", "init", "--preseed")
	d.Run("", "lxc", "image", "import", d.Dir+"/image.tar", "--alias", "tiny")
	d.Run("", "lxc", "profile", "create", "juju-charm")
	d.Run(string(data), "lxc", "profile", "edit", "juju-charm")
	// The name makes its control groups ours on a machine that has an LXD.
	unit := filepath.Base(d.Dir)

	d.Sub(t, "a unit starts on a host without kfd", func(t *testing.T) {
		d.Run("", "lxc", "launch", "-q", "tiny", unit, "-p", "default", "-p", "juju-charm")
		out, err := d.Inside(unit, "ls /dev")
		require.NoError(t, err, out)
		require.NotContains(t, strings.Fields(out), "kfd")
	})
	d.Sub(t, "kfd appears in the running unit when the host gets it", func(t *testing.T) {
		d.OnHost("mknod", "-m", "600", "/dev/kfd", "c", "1", "3") // null's numbers: every kernel has a driver for them
		requireKFD(t, d, unit)
	})
	d.Sub(t, "a unit that starts after the driver has kfd at once", func(t *testing.T) {
		d.Run("", "lxc", "restart", "-f", unit)
		requireKFD(t, d, unit)
	})
	d.Sub(t, "kfd goes when the host loses it", func(t *testing.T) {
		d.OnHost("rm", "/dev/kfd")
		require.Eventually(t, func() bool {
			_, err := d.Inside(unit, "[ ! -e /dev/kfd ]")
			return err == nil
		}, lxdhost.Patience, 50*time.Millisecond)
	})
	d.Sub(t, "the unit may run containers", func(t *testing.T) {
		require.Equal(t, "true", expanded(t, d, unit).Config["security.nesting"])
	})
	d.Sub(t, "the profile brings no gpu, which would keep units from starting", func(t *testing.T) {
		for name, device := range expanded(t, d, unit).Devices {
			require.NotEqual(t, "gpu", device["type"], name)
		}
		other := unit + "-gpu"
		d.Run("", "lxc", "init", "tiny", other)
		d.Run("", "lxc", "config", "device", "add", other, "gpu", "gpu", "vendorid=1002", "productid=0000") // no such card anywhere
		out, err := d.Try("", "lxc", "start", other)
		require.Error(t, err)
		require.Contains(t, out, "Failed to detect requested GPU device")
	})
	d.Sub(t, "nothing is left behind", func(t *testing.T) {
		d.Run("", "lxc", "delete", "-f", unit)
		require.NotContains(t, strings.Fields(d.Run("", "lxc", "list", "-f", "csv", "-c", "n")), unit)
		require.False(t, slices.ContainsFunc(lxdhost.Cgroups(t), func(path string) bool { return strings.HasSuffix(path, "."+unit) }))
		d.Stop()
		lxdhost.RemoveCgroups(t, groups) // lxc.pivot
		lxdhost.NothingLeft(t, d, groups, links)
	})
}

// requireKFD waits until /dev/kfd in the unit is the host's device, opens for
// reading and writing, and belongs to root:video.
func requireKFD(t *testing.T, d *lxdhost.Host, unit string) {
	t.Helper()
	var out string
	require.Eventually(t, func() bool {
		var err error
		out, err = d.Inside(unit, "stat -c '%t:%T %u:%g' /dev/kfd && exec 3<>/dev/kfd")
		return err == nil
	}, lxdhost.Patience, 50*time.Millisecond)
	require.Equal(t, "1:3 0:44", out)
}

type instance struct {
	Config  map[string]string            `json:"expanded_config"`
	Devices map[string]map[string]string `json:"expanded_devices"`
}

// expanded is the instance as LXD sees it with all its profiles.
func expanded(t *testing.T, d *lxdhost.Host, name string) (i instance) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(d.Run("", "lxc", "query", "/1.0/instances/"+name)), &i))
	return i
}
