package usage

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestContainerOfAControlGroup(t *testing.T) {
	const hex = "4c01db0b339c1f6a0d4a9f1e2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e"
	for name, c := range map[string]struct {
		text string
		own  string
		want string
		dir  string
	}{
		"a Concourse task":         {task, "", handle, "/sys/fs/cgroup/system.slice/concourse-worker.service/garden/" + handle},
		"of an old Concourse":      {"0::/garden/some-handle\n", "", "some-handle", "/sys/fs/cgroup/garden/some-handle"},
		"a privileged task":        {"0::/system.slice/" + handle + "\n", "", handle, "/sys/fs/cgroup/system.slice/" + handle},
		"Docker within a task":     {"0::/garden/" + handle + "/docker/" + hex + "\n", "", handle, "/sys/fs/cgroup/garden/" + handle},
		"Docker with systemd":      {docker, "", "4c01db0b339c", "/sys/fs/cgroup/system.slice/docker-" + hex + ".scope"},
		"Docker without":           {"0::/docker/" + hex + "/init.scope\n", "", "4c01db0b339c", "/sys/fs/cgroup/docker/" + hex},
		"Podman":                   {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + hex + ".scope/container\n", "", "4c01db0b339c", "-"},
		"Kubernetes":               {"0::/kubepods.slice/kubepods-pod1b2c_3d.slice/cri-containerd-" + hex + ".scope\n", "", "4c01db0b339c", "-"},
		"a run":                    {"0::/system.slice/runner.service/gpukit-run-4f1c0a2b91d3/x\n", "", "run-4f1c0a2b91d3", "/sys/fs/cgroup/system.slice/runner.service/gpukit-run-4f1c0a2b91d3"},
		"a service of gpukit":      {"0::/system.slice/gpukit-run.service\n", "", "", ""},
		"LXD, seen from its host":  {"0::/lxc.payload.juju-4f2a10-0/system.slice/garden/" + handle + "\n", "", "juju-4f2a10-0", "/sys/fs/cgroup/lxc.payload.juju-4f2a10-0"},
		"in the exporter's own":    {"0::/docker/" + hex + "/garden/" + handle + "\n", "0::/docker/" + hex + "/system.slice\n", handle, "-"},
		"the exporter's own alone": {"0::/docker/" + hex + "/x.service\n", "0::/docker/" + hex + "\n", "", ""},
		"cgroup v1":                {"12:cpu,cpuacct:/garden/" + handle + "\n0::/\n", "", handle, "/sys/fs/cgroup/cpu,cpuacct/garden/" + handle},
		"cgroup v1, systemd's":     {"1:name=systemd:/garden/" + handle + "\n", "", handle, "/sys/fs/cgroup/systemd/garden/" + handle},
		"cgroup v1 as runc makes it": {"9:name=systemd:/garden/" + handle + "\n4:memory:/outer/garden/" + handle + "\n1:cpu:/garden/" + handle + "\n0::/garden/" + handle + "\n", "", handle,
			"/sys/fs/cgroup/systemd/garden/" + handle},
		"and of a privileged task":      {"9:name=systemd:/" + handle + "\n4:memory:/outer/" + handle + "\n0::/" + handle + "\n", "", handle, "/sys/fs/cgroup/systemd/" + handle},
		"of another namespace":          {"0::/../../garden/" + handle + "\n", "", handle, ""},
		"a service":                     {system, "", "", ""},
		"a session":                     {"0::/user.slice/user-1000.slice/session-2.scope\n", "", "", ""},
		"the root":                      {"0::/\n", "", "", ""},
		"a desktop program with a UUID": {"0::/user.slice/app-vte-spawn-" + handle + ".scope\n", "", "", ""},
		"damaged":                       {"garden\n:\n0:/garden/x\n\n", "", "", ""},
		"a long name":                   {"0::/garden/" + strings.Repeat("x", 200) + "\n", "", strings.Repeat("x", maxContainer), "-"},
	} {
		t.Run(name, func(t *testing.T) {
			p := placeOf(c.text, containersOf(c.own))
			require.Equal(t, c.want, p.container)
			switch c.dir {
			case "":
				require.Empty(t, p.dirs)
			case "-":
			default:
				require.Equal(t, c.dir, p.dirs[0])
			}
		})
	}
}

func TestContainerIsRemovedWithItsControlGroup(t *testing.T) {
	m := newMachine(t)
	p := placeOf(task, nil)
	require.True(t, p.removed(m.root))
	hosttest.Put(t, m.root, "/sys/fs/cgroup/system.slice/concourse-worker.service/garden/"+handle+"/cgroup.procs", "")
	require.False(t, p.removed(m.root))
	require.True(t, place{container: "x"}.removed(m.root), "one that can't be looked for")
}

func FuzzPlace(f *testing.F) {
	f.Add(task, system)
	f.Add("12:cpu,cpuacct:/garden/"+handle+"\n0::/\n", "0::/docker/x\n")
	f.Add("0::/lxc.payload.\n0::/../garden//\n", ":::")
	f.Add("1:name=..:/garden/"+handle+"\n", "")
	f.Add("1:../../etc:/garden/"+handle+"\n", "")
	f.Fuzz(func(t *testing.T, text, own string) {
		outer := containersOf(own)
		p := placeOf(text, outer)
		require.LessOrEqual(t, len(p.container), maxContainer)
		if p.container == "" {
			require.Empty(t, p.dirs)
		}
		require.NotContains(t, outer, p.container)
		for _, d := range p.dirs {
			require.True(t, strings.HasPrefix(d, "/sys/fs/cgroup/"), d)
		}
	})
}

func TestPeakIsOfTheGPUsOwnMemory(t *testing.T) {
	for text, want := range map[string][]Amount{
		"drm/0000:03:00.0/vram0 8589934592\n":                                   {{"vram", 8589934592}},
		"drm/0000:03:00.0/vram0 1024\ndrm/0000:03:00.0/vram1 1024\n":            {{"vram", 2048}},
		"drm/0000:43:00.0/vram0 7\ndrm/0000:03:00.0/vram0 0\n":                  {{"vram", 0}},
		"drm/0000:43:00.0/vram0 7\n":                                            nil,
		"drm/0000:03:00.0/stolen 7\ndrm/0000:03:00.0/vram0 max\n\n0000:03:00.0": nil,
		"": nil,
	} {
		require.Equal(t, want, peakOf(text, "0000:03:00.0"), text)
	}
}

// The control group counts what no look at processes has seen, also of those that ended.
func TestPeakComesFromTheContainersControlGroup(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 1, 0))
	s := m.scanner(Options{})
	dir := placeOf(task, nil).dirs[0]
	scan := func(devices ...gpu.Slot) []Amount {
		s.Scan(context.Background(), devices)
		for _, r := range s.Last().Of(first) {
			if r.Container == handle {
				return r.Peak
			}
		}
		t.Fatal("the container is not seen")
		return nil
	}
	require.Nil(t, scan(first), "an older kernel")
	require.NoError(t, m.root.MkdirAll(dir, 0o755))
	require.NoError(t, m.root.WriteFile(dir+"/dmem.peak", []byte("drm/"+first.PCI+"/vram0 4096\n"), 0o444))
	require.Equal(t, []Amount{{"vram", 4096}}, scan(first))
	require.Equal(t, []Amount{{"vram", 4096}}, scan(first, second))
	require.Nil(t, scan(first, gpu.Slot{PCI: first.PCI, Partition: 1, DRM: first.Sysfs}), "nobody knows whose partition's it is")
}

func FuzzPeak(f *testing.F) {
	f.Add("drm/0000:03:00.0/vram0 8589934592\n")
	f.Add("drm/0000:03:00.0/vram0 18446744073709551615\ndrm/0000:03:00.0/vram1 -1")
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range peakOf(text, "0000:03:00.0") {
			require.GreaterOrEqual(t, a.Value, 0.0)
		}
	})
}
