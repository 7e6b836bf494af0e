package worker

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/engines"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

func wrapperOf(t *testing.T, d Desired) oci.Config {
	t.Helper()
	data, ok := resourcetest.File(d.Resources, oci.DefaultConfig)
	require.True(t, ok, "the wrapper is not configured")
	c, err := roletest.DecodeWrapper(data)
	require.NoError(t, err)
	return c
}

func TestGPUTasksGetTheirEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		host string
		set  map[string]any
		want map[string]string
	}{
		"architectures":        {"mi210x4", nil, map[string]string{"HIP_ARCHES": "gfx90a"}},
		"what to build for":    {"mi210x4", map[string]any{"task-env": "HIP_ARCHES=gfx942,gfx90a:xnack-:sramecc+"}, map[string]string{"HIP_ARCHES": "gfx942,gfx90a:sramecc+:xnack-"}},
		"no override needed":   {"amd", map[string]any{"task-env": "HSA_OVERRIDE_GFX_VERSION=auto"}, map[string]string{"HIP_ARCHES": "gfx1100"}},
		"override of an APU":   {"apu-gfx1103", map[string]any{"task-env": "HSA_OVERRIDE_GFX_VERSION=auto"}, map[string]string{"HIP_ARCHES": "gfx1103", "HSA_OVERRIDE_GFX_VERSION": "11.0.0"}},
		"override by value":    {"amd", map[string]any{"task-env": "HSA_OVERRIDE_GFX_VERSION=10.3.0"}, map[string]string{"HIP_ARCHES": "gfx1100", "HSA_OVERRIDE_GFX_VERSION": "10.3.0"}},
		"the operator's wins":  {"amd", map[string]any{"task-env": `HIP_ARCHES=gfx1030 NOTE="a b"`}, map[string]string{"HIP_ARCHES": "gfx1030", "NOTE": "a b"}},
		"nothing without auto": {"apu-gfx1103", nil, map[string]string{"HIP_ARCHES": "gfx1103"}},
	} {
		set := map[string]any{"compute-runtime": "rocm"}
		maps.Copy(set, c.set)
		got := wrapperOf(t, Desire(observed(t, hosttest.Host(t, c.host), set), nil))
		require.Equal(t, c.want, got.Env, name)
		require.Equal(t, map[string]string{"ROCM_PATH": "/opt/rocm", "ROCM_HOME": "/opt/rocm", "HIP_PATH": "/opt/rocm", "LD_LIBRARY_PATH": "/opt/rocm/lib"},
			got.RootfsEnv["/opt/rocm"], name)
		require.Equal(t, []string{"AMD_VISIBLE_DEVICES"}, got.Visible, name)
	}
}

// task-env may hold a token, so only root can read the file.
func TestWrapperConfigIsReadableByRootOnly(t *testing.T) {
	h := hosttest.Quiet(t, hosttest.Host(t, "amd"))
	d := Desire(observed(t, h.Root, map[string]any{"compute-runtime": "rocm", "task-env": "TOKEN=x"}), nil)
	require.EqualValues(t, 0o600, resourcetest.Mode(d.Resources, oci.DefaultConfig))
	for _, r := range d.Resources { // the wrapper refuses another's, so a hook must give it back
		if f, is := r.(resource.File); is && f.Path == oci.DefaultConfig {
			require.Equal(t, "root", f.Owner)
		}
	}
}

// D41: by default only tasks get folders, also on a worker without GPUs. D53: invalid or
// missing folders block nothing.
func TestTaskFolders_D41_D53(t *testing.T) {
	r := hosttest.Host(t, "no-gpu")
	for _, name := range []string{"data", "out_rw", "cache_writable", ".hidden"} {
		require.NoError(t, r.MkdirAll("/srv/"+name, 0o700))
	}
	hosttest.Put(t, r, "/srv/a-file", "")
	folders, err := SrvFolders(r)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		set    map[string]any
		suffix string
		want   *oci.Folders
	}{
		"all":            {nil, " (3 folders: 1 read-only, 2 writable)", &oci.Folders{Root: "/srv", Containers: oci.Tasks, Readonly: oci.Recursive}},
		"by name":        {map[string]any{"srv-folders": "data"}, " (1 folder: read-only)", &oci.Folders{Root: "/srv", Containers: oci.Tasks, Names: []string{"data"}, Readonly: oci.Recursive}},
		"all containers": {map[string]any{"srv-folders-containers": "all"}, " (3 folders: 1 read-only, 2 writable)", &oci.Folders{Root: "/srv", Containers: oci.All, Readonly: oci.Recursive}},
		"writable only":  {map[string]any{"srv-folders": "out_rw"}, " (1 folder: writable)", &oci.Folders{Root: "/srv", Containers: oci.Tasks, Names: []string{"out_rw"}, Readonly: oci.Recursive}},
		"none":           {map[string]any{"srv-folders": "none"}, "", nil},
	} {
		o := observed(t, r, c.set)
		o.Folders = folders
		d := Desire(o, nil)
		require.Equal(t, c.suffix, d.Suffix, name)
		if c.want == nil {
			require.True(t, absent(d, oci.DefaultConfig), name)
			require.NotContains(t, env(t, d), "CONCOURSE_CONTAINERD_BIN", name)
			continue
		}
		got := wrapperOf(t, d)
		require.Equal(t, c.want, got.Folders, name)
		require.Empty(t, got.GPUs, name)
		require.Equal(t, concourse.Launcher, env(t, d)["CONCOURSE_CONTAINERD_BIN"], name)
	}
	none, err := SrvFolders(hosttest.Host(t, "no-gpu"))
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestOldKernelsMakeOnlyTopFoldersReadOnly(t *testing.T) {
	for release, want := range map[string]bool{"5.4.0-100-generic": false, "5.11.22": false, "5.12.0": true, "6.8.0-31-generic": true, "odd": false} {
		r := hosttest.Host(t, "no-gpu")
		hosttest.Put(t, r, "/proc/sys/kernel/osrelease", release+"\n")
		require.Equal(t, want, machine.Observe(r).RecursiveReadonly, release)
	}
}

// D44: NVIDIA's tasks get the chosen GPUs, never all.
func TestCUDAHonoursTheChosenGPUs_D44(t *testing.T) {
	r := hosttest.Host(t, "both-passed")
	hosttest.Put(t, r, "/etc/cdi/nvidia.json", `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0"},{"name":"all"}]}`)
	described, err := nvidiaDevices(r)
	require.NoError(t, err)
	require.Equal(t, []string{"0", "all"}, described)
	o := observed(t, r, map[string]any{"compute-runtime": "cuda", "gpu-device-ids": "0"})
	o.NVIDIA = described
	d := Desire(o, nil)
	require.Empty(t, d.Causes)
	require.Equal(t, " (GPU: 1x NVIDIA)", d.Suffix)
	got := wrapperOf(t, d)
	require.Len(t, got.GPUs, 1)
	require.Equal(t, oci.GPU{Name: got.GPUs[0].Name, CDI: "nvidia.com/gpu=0"}, got.GPUs[0], "its tool decides which nodes")
	require.Equal(t, []string{"/etc/cdi/nvidia.json"}, got.Specs)
	require.Equal(t, []string{"NVIDIA_VISIBLE_DEVICES"}, got.Visible)
	require.Empty(t, got.Env)
	require.Contains(t, env(t, d)["CONCOURSE_TAG"], "gpu,compute-runtime=cuda,cuda,gpu-count=1")
	require.True(t, absent(d, cdi.Path))

	o.NVIDIA = []string{}
	d = Desire(o, nil)
	require.Equal(t, "GPU 0 is not in /etc/cdi/nvidia.json — on the unit run: sudo nvidia-ctk cdi generate --format=json --output=/etc/cdi/nvidia.json", d.Causes[0].String())
	require.Empty(t, d.Suffix)
}

func TestExporterOptionsAreFlags(t *testing.T) {
	report := " --usage.report=" + role.UsageReport
	const tasks = " --tasks.report=" + verdict.ReportPath + "\n"
	for metrics, flags := range map[string]string{
		"usage,pcie-bandwidth":              report + tasks,
		"usage,pcie-bandwidth,dcgm-aliases": report + " --dcgm-aliases" + tasks,
		"usage":                             report + " --collect.pcie-bandwidth=false" + tasks,
		"pcie-bandwidth":                    " --collect.usage=false" + tasks,
		"":                                  " --collect.usage=false --collect.pcie-bandwidth=false" + tasks,
	} {
		d := Desire(observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "rocm", "gpu-metrics": metrics}), nil)
		layer, ok := resourcetest.File(d.Resources, role.ExporterLayer)
		require.True(t, ok)
		require.Contains(t, layer, flags, metrics)
		require.Equal(t, !strings.Contains(metrics, "usage"), absent(d, role.UsageReport), metrics)
		require.Equal(t, strings.Contains(metrics, "usage"), strings.Contains(layer, " --vendor=amd --usage.report="+role.UsageReport), "who uses the GPUs is looked up by root")
	}
}

// NVIDIA GPUs have no flags for users and quarantine.
func TestUnitWithNVIDIAGPUsHasExporterAndHelper(t *testing.T) {
	for _, sharing := range []string{"shared", "exclusive"} {
		o := observed(t, hosttest.Host(t, "both-passed"), map[string]any{"compute-runtime": "cuda", "gpu-sharing": sharing, "gpu-metrics": "dcgm-aliases"})
		o.NVIDIA = []string{"0", "all"}
		d := Desire(o, nil)
		require.True(t, d.Exporter)
		layer, ok := resourcetest.File(d.Resources, role.ExporterLayer)
		require.True(t, ok)
		require.Contains(t, layer, " --vendor=nvidia --collect.usage=false --nvidia.report="+role.NVIDIAReport+" --dcgm-aliases")
		require.Contains(t, layer, "    gpu-reports:\n")
		require.Contains(t, layer, role.ExporterBin+" write-gpus "+role.GPUReport+" --path.root=/ --vendor=nvidia --nvidia.report="+role.NVIDIAReport)
		require.NotRegexp(t, "usage.report|service.report|gpu watch", layer)
		require.Equal(t, sharing == "exclusive", strings.Contains(layer, "dispatch gpu leases\n"), layer)
		unit, ok := resourcetest.File(d.Resources, "/etc/systemd/system/"+role.PebbleUnit)
		require.True(t, ok)
		require.Equal(t, sharing == "exclusive", strings.Contains(unit, "CAP_SYS_PTRACE"), "nvidia-smi looks at no process")
		require.True(t, absent(d, role.UsageReport))
		require.False(t, absent(d, role.GPUReport))
		require.False(t, absent(d, role.NVIDIAReport))
	}
}

// A name that the wrapper refuses would stop every task.
func TestOptionAndWrapperAcceptEqualFolderNames(t *testing.T) {
	for _, name := range []string{"data", "out_rw", "ü", "two words", ".hidden", "a/b", "a\x01", "a\u0085b", "\xff", "a\nb"} {
		_, problems := config.Parse(map[string]any{"mode": "worker", "srv-folders": name}, nil)
		require.Equal(t, oci.FolderNameProblem(name) == "", len(problems) == 0, "%q", name)
	}
}

// A task writes to /srv as any user but root. A privileged task writes as root.
func TestFoldersOfTasksAreMountedWithoutSetuid(t *testing.T) {
	for name, c := range map[string]struct {
		folders []string
		set     map[string]any
		want    bool
	}{
		"given":      {[]string{"cache_rw"}, nil, true},
		"others":     {[]string{"cache_rw"}, map[string]any{"srv-folders": "models"}, false},
		"none":       {[]string{"cache_rw"}, map[string]any{"srv-folders": "none"}, false},
		"none there": {nil, nil, false},
	} {
		o := observed(t, hosttest.Host(t, "no-gpu"), c.set)
		o.Folders = c.folders
		found := false
		for _, r := range Desire(o, nil).Resources {
			n, is := r.(resource.Nosuid)
			found = found || is && n.Dir == "/srv"
		}
		require.Equal(t, c.want, found, name)
	}
}

// enginesOf returns the engines of the desired state.
func enginesOf(d Desired) (found []engines.Unit) {
	for _, r := range d.Resources {
		if u, is := r.(engines.Unit); is {
			found = append(found, u)
		}
	}
	return found
}

func TestOtherEnginesGetTheUnitsGPUsByOption(t *testing.T) {
	for name, c := range map[string]struct {
		host, runtime, option string
		want                  []string
		containers            oci.Containers
	}{
		"no option":       {"amd", "rocm", "", nil, oci.Tasks},
		"two":             {"amd", "rocm", "docker,podman", []string{"docker", "podman"}, oci.Requested},
		"no GPU":          {"no-gpu", "auto", "docker", nil, oci.Tasks},
		"NVIDIA's GPUs":   {"nvidia-only", "cuda", "docker", nil, oci.Tasks},
		"tasks get none":  {"amd", "none", "docker", nil, oci.Tasks},
		"another vendors": {"both-passed", "rocm", "podman", []string{"podman"}, oci.Requested},
	} {
		d := Desire(observed(t, hosttest.Host(t, c.host), map[string]any{"compute-runtime": c.runtime, "container-engines": c.option}), nil)
		found := enginesOf(d)
		require.Len(t, found, 1, name)
		require.Equal(t, engines.Unit{Engines: c.want, Wrapper: "/opt/concourse-ci-machine/engines/runc-amd-wrapper"}, found[0], name)
		require.Equal(t, c.containers, wrapperOf(t, d).Containers, name)
	}
}

// The option accepts the engines of package engines.
func TestOptionAcceptsAllEngines(t *testing.T) {
	h := hosttest.Quiet(t, hosttest.Host(t, "amd"))
	for _, name := range engines.Names() {
		o := observed(t, h.Root, map[string]any{"compute-runtime": "rocm", "container-engines": name})
		require.Equal(t, []string{name}, o.Config.GPU.ContainerEngines)
	}
	p, err := engines.Unit{Wrapper: enginesWrapper}.Diff(context.Background(), h)
	require.NoError(t, err)
	require.Empty(t, p, "a unit without the option asks nobody")
}
