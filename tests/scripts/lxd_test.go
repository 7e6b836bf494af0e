//go:build e2e

package scripts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

// onLXD is a world whose lxc and LXD are real, with a container of the unit
// rocm-worker/0; juju is the stand-in.
func onLXD(t *testing.T) (w *world, h *lxdhost.Host, box string) {
	t.Helper()
	lxdhost.Need(t, "jq")
	groups := lxdhost.Cgroups(t)
	t.Cleanup(func() { lxdhost.RemoveCgroups(t, groups) }) // runs after the host's own
	h = lxdhost.Start(t, threeCards(t))
	// The name makes its control groups ours on a machine that has an LXD.
	box = "juju-" + filepath.Base(h.Dir)
	launch(h, box)
	w = newWorld(t)
	require.NoError(t, os.Remove(w.dir+"/bin/lxc"), "the real one")
	w.env, w.Instance = []string{"LXD_DIR=" + h.Dir + "/lxd", "LXD_CONF=" + h.Dir + "/client"}, box
	w.Apps["rocm-worker"] = &application{Units: 1}
	return w, h, box
}

// The container and its nodes are real; the cards' sysfs files and kfd are made up.
func TestPassGPUOnRealLXD(t *testing.T) {
	w, h, box := onLXD(t)
	pass := func(args ...string) result {
		return w.run(t, "pass-gpu.sh", append([]string{"rocm-worker/0"}, args...)...)
	}
	devices := func() (d map[string]map[string]string) {
		var i struct {
			Devices map[string]map[string]string
			Config  map[string]string
		}
		require.NoError(t, json.Unmarshal([]byte(h.Run("", "lxc", "query", "/1.0/instances/"+box)), &i))
		return i.Devices
	}
	nodes := func() string {
		return h.Run("", "lxc", "exec", box, "--", "sh", "-c", "for n in /dev/kfd /dev/dri/*; do [ ! -e $n ] || stat -c '%n %t:%T %u:%g %a' $n; done")
	}
	add := "lxc config device add " + box + " "

	r := pass()
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "this host has 2 amd GPUs; choose one with --pci:\n0000:03:00.0\t1\tamdgpu\tamd\t", "as LXD lists them")
	require.Contains(t, r.err, "\n0000:83:00.0\t2\tamdgpu\tamd\t")
	require.Empty(t, devices())

	dry := pass("--pci=03:00.0", "--dry-run")
	require.Zero(t, dry.code, dry.err)
	require.Equal(t, lines("lxc config set "+box+" user.pass-gpu.gpu0=amd\\ 0000:03:00.0", add+"gpu0 gpu pci=0000:03:00.0 gid=44",
		"lxc config set "+box+" user.pass-gpu.kfd=amd", add+"kfd unix-char source=/dev/kfd path=/dev/kfd gid=44 required=false"), dry.out)
	require.Empty(t, devices())

	r = pass("--pci=03:00.0")
	require.Zero(t, r.code, r.err)
	require.Equal(t, dry.out, r.out)
	const given = "/dev/kfd 1:3 0:44 660\n/dev/dri/card1 e2:1 0:44 660\n/dev/dri/renderD129 e2:81 0:44 660"
	require.Equal(t, given, nodes(), "one card of three, and kfd")

	r = pass("--pci=03:00.0")
	require.Zero(t, r.code, r.err)
	require.Empty(t, r.out)
	require.Contains(t, r.err, "nothing to change")

	for _, device := range []string{"gpu0", "kfd"} {
		h.Run("", "lxc", "config", "device", "unset", box, device, "gid")
	}
	require.Contains(t, nodes(), "/dev/kfd 1:3 0:0 ")
	r = pass("--pci=03:00.0")
	require.Zero(t, r.code, r.err)
	require.Equal(t, lines("lxc config device set "+box+" gpu0 gid=44", "lxc config device set "+box+" kfd gid=44"), r.out)
	require.Equal(t, given, nodes(), "the group is put right in the running container")

	h.Run("", "lxc", "restart", "-f", box)
	require.Equal(t, given, nodes(), "after a restart")

	h.Run("", "lxc", "config", "device", "add", box, "theirs", "unix-char", "source=/dev/null", "path=/dev/theirs")
	r = pass("--remove")
	require.Zero(t, r.code, r.err)
	require.Len(t, devices(), 1)
	require.Contains(t, devices(), "theirs")
	require.Empty(t, nodes())
	require.NotContains(t, h.Run("", "lxc", "config", "show", box), "user.pass-gpu")

	t.Run("a container whose profile brings kfd without the group", func(t *testing.T) {
		h.Run("", "lxc", "profile", "device", "add", "default", "kfd", "unix-char", "source=/dev/kfd", "path=/dev/kfd")
		r := pass("--pci=83:00.0")
		require.Zero(t, r.code, r.err)
		require.Contains(t, r.out, "lxc config device override "+box+" kfd gid=44\n")
		require.Equal(t, "/dev/kfd 1:3 0:44 660\n/dev/dri/card2 e2:2 0:44 660\n/dev/dri/renderD130 e2:82 0:44 660", nodes())
		r = pass("--remove")
		require.Zero(t, r.code, r.err)
		require.Equal(t, "/dev/kfd 1:3 0:0 660", nodes(), "the profile's again")
	})
}
