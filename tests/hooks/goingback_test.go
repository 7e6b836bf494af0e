package hooks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const operatorsCDI = `{"cdiVersion":"0.6.0","kind":"amd.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD128"}]}}]}`

// What an operator has beside the charm's, on a unit that goes through the
// runtimes: it is there at the end as it was at the beginning.
func TestD49D52RuntimesComeAndGoAndLeaveTheOperatorsFiles(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("both-passed"), options{"compute-runtime": "rocm", "amd-container-toolkit": "skip", "srv-folders": "none"})
	mine := map[string]string{
		"/etc/cdi/amd.json":                    operatorsCDI,
		"/etc/cdi/other.json":                  `{"cdiVersion":"0.5.0","kind":"vendor.com/x","devices":[]}`,
		"/etc/apt/sources.list.d/mine.sources": "Types: deb\n",
		"/etc/udev/rules.d/99-mine.rules":      "# mine\n",
	}
	for path, text := range mine {
		require.NoError(t, u.Root.WriteFile(path, []byte(text), 0o644))
	}
	before := u.files()
	u.giveKey()
	u.hook("install")
	u.web()
	u.flight("changed", "web/0")
	require.Contains(t, u.read("/etc/cdi/amd.json"), `"name":"0000:03:00.0"`)
	require.Equal(t, operatorsCDI, u.read("/etc/cdi/amd.json.before-concourse"))
	require.True(t, u.Machine.Up("concourse-cdi-refresh.path"))

	// NVIDIA's tool is there, provided by the operator: it is used and kept.
	require.NoError(t, u.Root.WriteFile("/usr/bin/nvidia-ctk", nil, 0o755))
	u.set(options{"compute-runtime": "cuda"})
	r := u.hook("config-changed")
	require.True(t, strings.HasPrefix(r.Status().Message, "Worker ready (v8.2.5) (GPU: 1x NVIDIA); GPUs not wat"), "described and handed out in one hook: "+r.Status().Message)
	require.Contains(t, strings.Join(r.Commands, "\n"), "nvidia-ctk cdi generate --format=json")
	require.NotContains(t, strings.Join(r.Commands, "\n"), "apt-get")
	require.Contains(t, u.read("/etc/cdi/nvidia.json"), "concourse-ci-machine/from")
	require.Contains(t, u.read("/etc/concourse-ci-machine/wrapper.json"), "nvidia.com/gpu=0")
	require.Equal(t, operatorsCDI, u.read("/etc/cdi/amd.json"), "put back")
	require.Contains(t, u.read("/var/lib/concourse-worker/worker-config.env"), "CONCOURSE_TAG=gpu,compute-runtime=cuda,cuda,gpu-count=1\n")
	require.Empty(t, u.hook("update-status").Plan())

	const layer, told = "/var/lib/concourse-ci-machine/pebble/layers/001-rocm-exporter.yaml", "/run/concourse-ci-machine/gpu-nvidia.json"
	require.Contains(t, u.read(layer), "--nvidia.report="+told)
	require.Contains(t, u.read(layer), "--vendor=nvidia")
	require.True(t, u.Machine.Up("concourse-pebble.service"))
	require.NoError(t, u.Root.WriteFile(told, []byte(`{"at":"2026-01-02T03:04:05Z","gpus":[]}`), 0o644))
	require.Empty(t, u.hook("update-status").Plan())

	u.set(options{"compute-runtime": "rocm"})
	u.hook("config-changed")
	require.False(t, u.Root.Exists("/etc/cdi/nvidia.json"))
	require.False(t, u.Root.Exists(told))
	require.Contains(t, u.read(layer), "--vendor=amd")
	require.NotContains(t, u.read(layer), "nvidia")
	require.Contains(t, u.read("/etc/concourse-ci-machine/wrapper.json"), "amd.com/gpu=")

	u.set(options{"compute-runtime": "none"})
	a := u.action("plan", nil)
	for _, line := range []string{"put /etc/cdi/amd.json back as it was before (tasks get no AMD GPU)", "stop concourse-cdi-refresh.path (compute-runtime is none)",
		"remove /etc/concourse-ci-machine/wrapper.json (tasks get neither GPUs nor folders)"} {
		require.Contains(t, a.Results["plan"], line)
	}
	r = u.hook("config-changed")
	require.Equal(t, "Worker ready (v8.2.5)", r.Status().Message)
	require.NotContains(t, u.read("/var/lib/concourse-worker/worker-config.env"), "CONCOURSE_TAG")
	require.Empty(t, u.hook("update-status").Plan())
	for path, text := range mine {
		require.Equal(t, text, u.read(path), path)
	}
	left := map[string]bool{}
	for _, path := range u.files() {
		left[path] = true
	}
	for _, path := range before {
		require.True(t, left[path], path)
	}
	for path := range left {
		require.NotRegexp(t, `^/etc/(cdi|apt|udev|modprobe\.d|modules-load\.d)/.*concourse|/nvidia\.json$|cdi-refresh|wrapper\.json|runtime/containerd`, path)
	}
}

// files are the files in /etc and /opt of the unit.
func (u *unit) files() (paths []string) {
	u.t.Helper()
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := u.Root.ReadDir(dir)
		if err != nil {
			return // not there yet
		}
		for _, e := range entries {
			if path := dir + "/" + e.Name(); e.IsDir() {
				walk(path)
			} else {
				paths = append(paths, path)
			}
		}
	}
	walk("/etc")
	walk("/opt")
	return paths
}

// The package that the charm installed goes with its runtime, and with the unit;
// one that was there stays.
func TestPackagesGoWithTheirRuntime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, end string
		there     bool
	}{{"brought, then none", "none", false}, {"brought, then removed", "remove", false}, {"there before", "none", true}} {
		u := newUnit(t, fixture("amd"), options{"compute-runtime": "rocm", "amd-container-toolkit": "1.2.0"})
		if c.there {
			require.NoError(t, u.Root.WriteFile("/var/lib/dpkg/status", []byte("Package: amd-container-toolkit\nStatus: install ok installed\nVersion: 1.2.0\n\n"), 0o644))
		} else { // as after the installation: AMD's repository is out of reach here
			require.NoError(t, u.Root.WriteFile("/var/lib/dpkg/status", []byte("Package: amd-container-toolkit\nStatus: install ok installed\nVersion: 1.2.0\n\n"), 0o644))
			require.NoError(t, u.Root.WriteFile("/var/lib/concourse-ci-machine/installed-packages.json", []byte(`{"packages":["amd-container-toolkit"]}`), 0o600))
		}
		u.giveKey()
		u.hook("install")
		var commands []string
		if c.end == "none" {
			u.set(options{"compute-runtime": "none"})
			commands = u.hook("config-changed").Commands
		} else {
			u.hook("stop")
			commands = u.hook("remove").Commands
		}
		text := strings.Join(commands, "\n")
		if c.there {
			require.NotContains(t, text, "apt-get", c.name)
			continue
		}
		require.Contains(t, text, "apt-get remove --yes -o DPkg::Lock::Timeout=600 amd-container-toolkit", c.name)
		require.NotContains(t, u.read("/var/lib/dpkg/status"), "amd-container-toolkit", c.name)
		require.False(t, u.Root.Exists("/var/lib/concourse-ci-machine/installed-packages.json"), c.name)
	}
}

// The built program, as its unit starts it: from a folder that is not the
// charm's, without Juju's environment.
func TestRefreshOfDescriptionsBetweenHooks(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("mi210x4"), options{"compute-runtime": "rocm", "amd-container-toolkit": "skip"})
	before := u.read("/etc/cdi/amd.json")
	wrapper := u.read("/etc/concourse-ci-machine/wrapper.json")
	u.Machine.Recorded()

	stdout, stderr, code := u.person("cdi", "refresh")
	require.Zero(t, code, stderr)
	require.Equal(t, "nothing to do\n", stdout)

	node := u.read("/dev/dri/renderD129")
	require.NoError(t, u.Root.Remove("/dev/dri/renderD129"))
	stdout, stderr, code = u.person("cdi", "refresh")
	require.Zero(t, code, stderr)
	require.Equal(t, "1/2 write /etc/cdi/amd.json (content differs)\n2/2 write /etc/concourse-ci-machine/wrapper.json (content differs)\n", stdout)
	require.NotContains(t, u.read("/etc/cdi/amd.json"), "renderD129")
	described, handed := u.read("/etc/cdi/amd.json"), u.read("/etc/concourse-ci-machine/wrapper.json")
	r := u.hook("update-status")
	require.NotContains(t, r.Plan(), "amd.json", "it is as the hook would have it")
	require.NotContains(t, r.Plan(), "wrapper.json")
	require.Equal(t, described, u.read("/etc/cdi/amd.json"))
	require.Equal(t, handed, u.read("/etc/concourse-ci-machine/wrapper.json"))

	require.NoError(t, u.Root.WriteFile("/dev/dri/renderD129", []byte(node), 0o644))
	u.Machine.Recorded()
	_, stderr, code = u.person("cdi", "refresh")
	require.Zero(t, code, stderr)
	require.Equal(t, before, u.read("/etc/cdi/amd.json"))
	require.Equal(t, wrapper, u.read("/etc/concourse-ci-machine/wrapper.json"))
	require.Empty(t, u.Machine.Recorded(), "it restarts nothing")

	_, stderr, code = u.person("cdi")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "want one of refresh, list, generate, validate")
}
