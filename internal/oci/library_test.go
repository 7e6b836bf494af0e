package oci

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// nvidia makes the testbed one of a unit with two NVIDIA GPUs, described as
// `nvidia-ctk cdi generate --format=json` does, with nodes open to all.
func nvidia(t *testing.T, devices ...string) *testbed {
	t.Helper()
	b := newTestbed(t)
	b.put(t, "nvidia.json", file(t, "testdata/nvidia.json"))
	for path, number := range map[string][2]uint32{
		"/dev/nvidia0": {195, 0}, "/dev/nvidia1": {195, 1}, "/dev/nvidiactl": {195, 255}, "/dev/nvidia-uvm": {511, 0},
		"/dev/nvidia-uvm-tools": {511, 1}, "/dev/dri/card1": {226, 1}, "/dev/dri/card2": {226, 2},
		"/dev/dri/renderD128": {226, 128}, "/dev/dri/renderD129": {226, 129},
	} {
		b.node(path, 0o666, 0, unix.Mkdev(number[0], number[1]))
	}
	b.configure(t, func(c *Config) {
		c.Specs, c.GPUs, c.Visible = []string{b.path("nvidia.json")}, nil, []string{"NVIDIA_VISIBLE_DEVICES"}
		for _, name := range devices {
			node := "/dev/nvidia0"
			if strings.HasSuffix(name, "=1") || strings.Contains(name, "-0001-") {
				node = "/dev/nvidia1"
			}
			c.GPUs = append(c.GPUs, GPU{Name: node[1:], CDI: name, Nodes: []string{node}})
		}
	})
	return b
}

// What the wrapper makes of a privileged container is what the CDI library
// makes of it, but for two decisions of the device policy: nodes are open to
// all, and access is rw; and but for the description of the task's own GPUs.
func TestEditsOfAPrivilegedContainerAreTheCDILibrarys(t *testing.T) {
	for name, c := range map[string]struct {
		bed     func(t *testing.T) *testbed
		spec    string
		devices []string
	}{
		"AMD": {newTestbed, "amd", []string{"amd.com/gpu=GPU-1a2b"}},
		"one NVIDIA GPU": {func(t *testing.T) *testbed { return nvidia(t, "nvidia.com/gpu=1") }, "nvidia",
			[]string{"nvidia.com/gpu=1"}},
		"two, by id and index": {func(t *testing.T) *testbed {
			return nvidia(t, "nvidia.com/gpu=GPU-5a6b7c8d-0001-4e21-9f3a-1b2c3d4e5f60", "nvidia.com/gpu=0")
		}, "nvidia", []string{"nvidia.com/gpu=GPU-5a6b7c8d-0001-4e21-9f3a-1b2c3d4e5f60", "nvidia.com/gpu=0"}},
		"all NVIDIA GPUs": {func(t *testing.T) *testbed { return nvidia(t, "nvidia.com/gpu=0", "nvidia.com/gpu=1") }, "nvidia",
			[]string{"nvidia.com/gpu=0", "nvidia.com/gpu=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.bed(t)
			b.bundle(t, "task", privileged, env("NVIDIA_VISIBLE_DEVICES=all", "A=b"))
			var want, got specs.Spec
			require.NoError(t, json.Unmarshal([]byte(b.text(t)), &want))
			require.NoError(t, b.create())
			require.NoError(t, json.Unmarshal([]byte(b.text(t)), &got))

			cache, err := cdilib.NewCache(cdilib.WithAutoRefresh(false), cdilib.WithSpecDirs(copied(t, b, c.spec)))
			require.NoError(t, err)
			require.Empty(t, cache.GetErrors())
			_, err = cache.InjectDevices(&want, c.devices...)
			require.NoError(t, err)
			underPolicy(&want)
			got.Mounts = slices.DeleteFunc(got.Mounts,
				func(m specs.Mount) bool { return m.Destination == wellknown.AMDSpec })
			require.ElementsMatch(t, want.Mounts, got.Mounts)
			require.ElementsMatch(t, want.Linux.Devices, got.Linux.Devices)
			require.ElementsMatch(t, unique(want.Linux.Resources.Devices), got.Linux.Resources.Devices)
			require.ElementsMatch(t, want.Process.Env, got.Process.Env)
			require.ElementsMatch(t, want.Process.User.AdditionalGids, got.Process.User.AdditionalGids)
			require.Equal(t, want.Hooks, got.Hooks)
			// And nothing more.
			want.Mounts, want.Linux.Devices, want.Linux.Resources, want.Process = got.Mounts, got.Linux.Devices, got.Linux.Resources, got.Process
			require.Equal(t, want, got)
		})
	}
}

func copied(t *testing.T, b *testbed, name string) string {
	t.Helper()
	b.put(t, "cdi/"+name+".json", file(t, filepath.Join("testdata", name+".json")))
	return b.path("cdi")
}

// underPolicy turns CDI's text on nodes into that of the policy: a node that root
// alone may use in the container is of no use to a task of another user.
func underPolicy(s *specs.Spec) {
	mode, root := os.FileMode(0o666), uint32(0)
	for i := range s.Linux.Devices {
		d := &s.Linux.Devices[i]
		d.FileMode, d.UID, d.GID = &mode, &root, &root
	}
	for i := range s.Linux.Resources.Devices {
		if r := &s.Linux.Resources.Devices[i]; r.Major != nil && *r.Major != 10 {
			r.Access = "rw"
		}
	}
}

func unique(rules []specs.LinuxDeviceCgroup) (once []specs.LinuxDeviceCgroup) {
	for _, r := range rules {
		known := false
		for _, o := range once {
			known = known || *o.Major == *r.Major && *o.Minor == *r.Minor
		}
		if !known {
			once = append(once, r)
		}
	}
	return once
}

// V13: the predecessor set NVIDIA_VISIBLE_DEVICES=all, whatever the unit gave.
func TestCUDAHonoursTheUnitsAndTheTasksChoice(t *testing.T) {
	const second = "GPU-5a6b7c8d-0001-4e21-9f3a-1b2c3d4e5f60"
	for value, want := range map[string][]string{
		"1": {"/dev/nvidia1", "/dev/dri/renderD129"}, second: {"/dev/nvidia1",
			"/dev/dri/renderD129"}, "0-1": {"/dev/nvidia0", "/dev/nvidia1"},
	} {
		b := nvidia(t, "nvidia.com/gpu=0", "nvidia.com/gpu=1")
		b.bundle(t, "task", env("NVIDIA_VISIBLE_DEVICES="+value))
		require.NoError(t, b.create())
		for _, path := range append(want, "/dev/nvidiactl", "libcuda.so.999.1", "update-ldcache") {
			require.Contains(t, b.text(t), path)
		}
		if len(want) == 2 && want[0] == "/dev/nvidia1" {
			require.NotContains(t, b.text(t), "/dev/nvidia0")
		}
		require.Equal(t, []string{"NVIDIA_VISIBLE_DEVICES=void"}, b.result(t).Process.Env, "as CDI says")
	}
	b := nvidia(t, "nvidia.com/gpu=0")
	b.bundle(t, "task", env("NVIDIA_VISIBLE_DEVICES="+second))
	require.ErrorContains(t, b.create(), "there are: 0 (GPU-5a6b7c8d-0000-4e21-9f3a-1b2c3d4e5f60)")
}

// The CDI library would add idmap here: with runc 1.4 a task then writes files
// as root of the host.
func TestMountsOfASpecAreNeverIDMapped(t *testing.T) {
	b := nvidia(t, "nvidia.com/gpu=0")
	b.bundle(t, "task")
	require.NoError(t, b.create())
	require.NotContains(t, b.text(t), "idmap")
	require.Equal(t, []uint32{44, 992}, b.result(t).Process.User.AdditionalGids)

	b.bundle(t, "task", func(spec map[string]any) {
		spec["linux"].(map[string]any)["gidMappings"] = []any{map[string]any{"containerID": 0, "hostID": 900,
			"size": 100}}
	})
	require.NoError(t, b.create())
	require.Equal(t, []uint32{92}, b.result(t).Process.User.AdditionalGids,
		"44 has no number inside and would stop the container")
}
