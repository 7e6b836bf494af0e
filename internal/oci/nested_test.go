package oci

import (
	"os"
	"slices"
	"syscall"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
)

// described is the mount by which a privileged task has the description of its GPUs.
func (b *testbed) described() edits.Mount {
	return edits.Mount{Destination: wellknown.AMDSpec, Type: "bind", Source: b.path("bundle/" + nestedSpec),
		Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}}
}

// nested is what an engine inside the task makes of the description, by CDI's own library:
// the nodes that a container gets by each name.
func (b *testbed) nested(t *testing.T) map[string][]string {
	t.Helper()
	require.Contains(t, b.result(t).Mounts, b.described())
	data := file(t, b.described().Source)
	b.put(t, "cdi/amd.json", data)
	cache, err := cdilib.NewCache(cdilib.WithAutoRefresh(false), cdilib.WithSpecDirs(b.path("cdi")))
	require.NoError(t, err)
	require.Empty(t, cache.GetErrors())
	raw, err := cdilib.ParseSpec([]byte(data))
	require.NoError(t, err)
	version, err := specs.MinimumRequiredVersion(raw)
	require.NoError(t, err)
	require.Equal(t, "0.5.0", version)
	require.Equal(t, version, raw.Version)
	of := map[string][]string{}
	for _, name := range cache.ListDevices() {
		var got oci.Spec
		_, err := cache.InjectDevices(&got, name)
		require.NoError(t, err)
		for i, d := range got.Linux.Devices {
			require.Equal(t, os.FileMode(0o666), *d.FileMode, "for any user of the container")
			require.Equal(t, "rw", got.Linux.Resources.Devices[i].Access, "as the task's control group has it")
			of[name] = append(of[name], d.Path)
		}
	}
	return of
}

var (
	firstGPU  = []string{"/dev/kfd", "/dev/dri/card0", "/dev/dri/renderD128"}
	secondGPU = []string{"/dev/kfd", "/dev/dri/card1", "/dev/dri/renderD129"}
	bothGPUs  = slices.Concat(firstGPU, secondGPU[1:])
)

func TestPrivilegedTaskFindsASpecOfOnlyItsGPUs(t *testing.T) {
	second := map[string][]string{"amd.com/gpu=0": secondGPU, "amd.com/gpu=GPU-3c4d": secondGPU,
		"amd.com/gpu=0000:c4:00.0": secondGPU, "amd.com/gpu=all": secondGPU}
	both := map[string][]string{"amd.com/gpu=0": firstGPU, "amd.com/gpu=GPU-1a2b": firstGPU, "amd.com/gpu=0000:03:00.0": firstGPU,
		"amd.com/gpu=1": secondGPU, "amd.com/gpu=GPU-3c4d": secondGPU, "amd.com/gpu=0000:c4:00.0": secondGPU, "amd.com/gpu=all": bothGPUs}
	for name, c := range map[string]struct {
		leased bool
		gpus   []GPU
		env    string
		want   map[string][]string
	}{
		"leases the second":        {leased: true, env: "AMD_VISIBLE_DEVICES=1", want: second},
		"leases both":              {leased: true, env: "GPU_COUNT=2", want: both},
		"shares all":               {gpus: []GPU{gpuA, gpuB}, want: both},
		"shares what it names":     {gpus: []GPU{gpuA, gpuB}, env: "AMD_VISIBLE_DEVICES=GPU-3c4d", want: second},
		"shares what the unit has": {gpus: []GPU{gpuB}, want: second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t)
			if c.leased {
				b = exclusive(t, func(conf *Config) { conf.GPUs = []GPU{gpuA, gpuB} })
			} else {
				b.configure(t, func(conf *Config) {
					conf.GPUs, conf.Visible = c.gpus, []string{"AMD_VISIBLE_DEVICES"}
				})
			}
			b.bundle(t, "task", privileged, env(c.env))
			require.NoError(t, b.call("create", "--bundle", b.path("bundle"), "--pid-file", b.path("init.pid"), "c1"))
			got := b.nested(t)
			for name := range got {
				require.ElementsMatch(t, c.want[name], got[name], name)
			}
			require.Len(t, got, len(c.want))
		})
	}
}

func TestOnlyPrivilegedTasksWithAMDGPUsGetASpec(t *testing.T) {
	for name, c := range map[string]struct {
		bed    func(t *testing.T) *testbed
		kind   string
		change []func(map[string]any)
	}{
		"without privileges": {newTestbed, "task", nil},
		"without a GPU": {func(t *testing.T) *testbed {
			b := newTestbed(t)
			b.configure(t, func(c *Config) { c.Visible = []string{"AMD_VISIBLE_DEVICES"} })
			return b
		}, "task", []func(map[string]any){privileged, env("AMD_VISIBLE_DEVICES=none")}},
		"a check": {func(t *testing.T) *testbed {
			b := newTestbed(t)
			b.configure(t, func(c *Config) { c.Containers = All })
			return b
		}, "check", []func(map[string]any){privileged}},
		"NVIDIA": {func(t *testing.T) *testbed { return nvidia(t, "nvidia.com/gpu=0") }, "task",
			[]func(map[string]any){privileged}},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.bed(t)
			b.bundle(t, c.kind, c.change...)
			require.NoError(t, b.create())
			require.NotContains(t, b.text(t), wellknown.AMDSpec)
			require.NoFileExists(t, b.described().Source)
		})
	}
}

// A spec may lack the numbers: then its reader looks at the nodes.
func TestNestedSpecHasOnlyNumbersOfTheUnitsSpec(t *testing.T) {
	b := newTestbed(t)
	b.put(t, "amd.json", `{"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD128"}]}}]}`)
	b.configure(t, func(c *Config) { c.GPUs = []GPU{gpuA.called("a", "0")} })
	b.bundle(t, "task", privileged)
	require.NoError(t, b.create())
	const device = `"containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD128","fileMode":438,"permissions":"rw"}]}`
	require.Equal(t, `{"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[{"name":"0",`+device+`},{"name":"all",`+device+"}]}\n", file(t, b.described().Source))
}

func TestNestedSpecReplacesAnyFile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	b := newTestbed(t)
	b.bundle(t, "task", privileged)
	b.put(t, "other", "not the task's")
	require.NoError(t, os.Symlink(b.path("other"), b.described().Source))
	for range 2 {
		require.NoError(t, b.create())
		require.Contains(t, b.nested(t), "amd.com/gpu=GPU-1a2b")
		require.Len(t, b.result(t).Linux.Devices, 3)
	}
	require.Equal(t, "not the task's", file(t, b.path("other")))
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(b.described().Source, &st))
	require.EqualValues(t, unix.S_IFREG|0o644, st.Mode, "a user of the task may run an engine, too")
}

func TestPrivilegedTaskWithoutANestedSpecIsRefused(t *testing.T) {
	b := exclusive(t)
	b.bundle(t, "task", privileged)
	require.NoError(t, os.Mkdir(b.described().Source, 0o755))
	err := b.call("create", "--bundle", b.path("bundle"), "--pid-file", b.path("init.pid"), "c1")
	require.ErrorContains(t, err, "cannot write amd-cdi.json of the task: is a directory [container c1]")
	require.Equal(t, []string{"", ""}, b.held(t))
}
