package predecessor

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// takeOver applies Leftovers once and returns the contents before and after.
func takeOver(t *testing.T, name string) (h host.Host, before, after map[string]string) {
	t.Helper()
	h, _ = predecessor(t, name)
	_, before = listing(t, h.Root)
	_, err := diffed(t, h).Apply(t.Context(), nil)
	require.NoError(t, err)
	_, after = listing(t, h.Root)
	return h, before, after
}

func keysOf(data []byte) []string { return slices.Collect(maps.Keys(concourse.EnvValues(data))) }

// When options of the Python charm are cleared, their effects are removed. The operator's
// lines in the same file stay.
func TestD26SettingsOfThePythonCharmAreReverted(t *testing.T) {
	h, _ := predecessor(t, "rocm")
	existing, err := h.ReadFile(concourse.EnvFile)
	require.NoError(t, err)
	file, err := concourse.WorkerConfig{Name: "worker-0-0badcafe", LogLevel: "info", TSA: concourse.TSA{Hosts: []string{"10.40.0.11:2222"}}}.File(existing)
	require.NoError(t, err)
	keys := keysOf(file.Data)
	require.Contains(t, keys, "CONCOURSE_CONTAINERD_MAX_CONTAINERS")
	for _, gone := range []string{"CONCOURSE_TAG", "CONCOURSE_CONTAINERD_CONFIG", "CONCOURSE_WORKER_PROCS", "CONCOURSE_CONTAINERD_DNS_SERVER",
		"CONCOURSE_CONTAINERD_DNS_PROXY_ENABLE", "PATH", "http_proxy"} {
		require.Contains(t, keysOf(existing), gone)
		require.NotContains(t, keys, gone)
	}

	h, _ = predecessor(t, "web")
	existing, err = h.ReadFile(concourse.HomeWebFiles().Env())
	require.NoError(t, err)
	file, err = concourse.WebConfig{Paths: concourse.HomeWebFiles(), BindPort: 8080, LogLevel: "info", OptionKeys: config.WebEnvKeys()}.File(existing)
	require.NoError(t, err)
	keys = keysOf(file.Data)
	require.Contains(t, keys, "CONCOURSE_ENABLE_ACROSS_STEP")
	for _, gone := range []string{"CONCOURSE_LDAP_HOST", "CONCOURSE_LDAP_BIND_PW", "CONCOURSE_MAIN_TEAM_LDAP_GROUP", "CONCOURSE_ENCRYPTION_KEY",
		"CONCOURSE_PROMETHEUS_BIND_IP", "CONCOURSE_PROMETHEUS_BIND_PORT", "CONCOURSE_POSTGRES_PASSWORD", "CONCOURSE_ADD_LOCAL_USER",
		"CONCOURSE_TSA_PUBLIC_KEY", "https_proxy"} {
		require.Contains(t, keysOf(existing), gone)
		require.NotContains(t, keys, gone)
	}
}

// The Python charm's folder of keys was open, its environment readable for a
// group, its exporter's password on the disk.
func TestD35D39FilesOfThePythonCharmAreClosed(t *testing.T) {
	h, _, after := takeOver(t, "web")
	paths := concourse.HomeWebFiles()
	existing, err := h.ReadFile(paths.Env())
	require.NoError(t, err)
	env, err := concourse.WebConfig{Paths: paths, BindPort: 8080}.File(existing)
	require.NoError(t, err)
	env.Owner = "" // the test's own
	require.NoError(t, resourcetest.Apply(t, h, resource.Dir{Path: paths.KeyDir(), Mode: 0o700}, env))
	for p, mode := range map[string]os.FileMode{paths.Env(): 0o600, paths.KeyDir(): 0o700, paths.TSAHostKey(): 0o600, paths.SessionKey(): 0o600} {
		st, err := h.Lstat(p)
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm(), p)
	}
	require.NotContains(t, strings.Join(values(after), "\n"), "Exp!orterPassw0rd")
	require.NotContains(t, after, "/root/.flyrc", "the exporter's token")
}

func values(m map[string]string) (out []string) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// The operator or the container manager chooses the modes of nodes. A reboot or restart sets
// them again.
func TestD37OpenedNodesAreLeftAlone(t *testing.T) {
	_, before, after := takeOver(t, "rocm")
	for _, node := range []string{"/dev/kfd", "/dev/dri/card0", "/dev/dri/renderD128"} {
		require.Contains(t, before[node], " 0666 ")
		require.Equal(t, before[node], after[node])
	}
	for p, text := range after {
		require.NotContains(t, text, "chmod 666", p)
	}
}

func TestD47LeakedConfigsAreRemoved(t *testing.T) {
	h, _, after := takeOver(t, "rocm")
	bundle := "/run/containerd/io.containerd.runtime.v2.task/concourse/0f1e2d/"
	require.NotContains(t, after, bundle+"config.json.k3Qz9a")
	require.True(t, h.Exists(bundle+"config.json"), "the container's own stays")
}

// Copies that upgrades forgot, a link that outlived its option, and a copy of
// the system's runc: none is left to be run.
func TestD48D49D51CopiesOfRuncAreRemoved(t *testing.T) {
	for _, name := range []string{"worker", "rocm", "cuda", "lxc"} {
		h, before, after := takeOver(t, name)
		for p, text := range after {
			require.NotContains(t, text, "7.11.0", "%s: %s", name, p)
		}
		_, err := h.Lstat("/opt/bin")
		require.ErrorIs(t, err, os.ErrNotExist, name)
		require.NotEqual(t, before, after)
		if name == "lxc" {
			continue
		}
		require.Equal(t, "runc of 7.14.3, stand-in\n", after[release.HomeDir+"/bin/runc"], "its release is whole again, if somebody goes back")
	}
}

// A unit that is taken over removes nothing that other units may still use (D50).
func TestD50SharedStorageIsNotTouched(t *testing.T) {
	h, before, after := takeOver(t, "lxc")
	for p, text := range before {
		if strings.HasPrefix(p, release.HomeDir+"/") {
			require.Equal(t, text, after[p], p)
		}
	}
	to, err := h.Readlink(release.HomeDir + "/bin/runc")
	require.NoError(t, err)
	require.Equal(t, "/opt/bin/runc-wrapper", to)
}

// Only the list of NVIDIA's runtime is restored in the file.
func TestD52NVIDIAsRuntimesAreRestored(t *testing.T) {
	_, before, after := takeOver(t, "cuda")
	const file = "/etc/nvidia-container-runtime/config.toml"
	require.Equal(t, strings.Replace(before[file], `["/opt/bin/runc.real", "crun"]`, `["runc", "crun"]`, 1), after[file])
	require.Equal(t, before["/usr/bin/nvidia-container-runtime"], after["/usr/bin/nvidia-container-runtime"])
	require.NotContains(t, after, "/usr/bin/nvidia-container-runtime.real")
	for list, want := range map[string]string{
		`runtimes = ["/opt/bin/runc.real", "crun"]`:         `runtimes = ["runc", "crun"]`,
		`  runtimes=["/opt/bin/runc.real"]`:                 `  runtimes=["runc"]`,
		`runtimes = ["/opt/bin/runc.real", "runc", "crun"]`: `runtimes = ["runc", "crun"]`,
		`runtimes = ["crun", "runc"]`:                       `runtimes = ["crun", "runc"]`,
		`# runtimes = ["/opt/bin/runc.real"]`:               `# runtimes = ["/opt/bin/runc.real"]`,
		`debug = "/opt/bin/runc.real"`:                      `debug = "/opt/bin/runc.real"`,
	} {
		require.Equal(t, "a = 1\n"+want+"\nb = 2\n", string(withOwnRuntimes([]byte("a = 1\n"+list+"\nb = 2\n"))))
	}
}

// A runtime that the wrapper replaced is restored.
func TestD52ReplacedRuntimeIsRestored(t *testing.T) {
	for _, how := range []string{"link", "copy", "gone"} {
		h, _ := predecessor(t, "cuda")
		wrapper, err := h.ReadFile("/opt/bin/runc-gpu-wrapper")
		require.NoError(t, err)
		real, err := h.ReadFile(nvidiaRuntime + realSuffix)
		require.NoError(t, err)
		require.NoError(t, h.Remove(nvidiaRuntime))
		switch how {
		case "link":
			hosttest.Link(t, h.Root, nvidiaRuntime, "/opt/bin/runc-gpu-wrapper")
		case "copy":
			hosttest.Put(t, h.Root, nvidiaRuntime, string(wrapper))
		}
		_, err = diffed(t, h).Apply(t.Context(), nil)
		require.NoError(t, err)
		got, err := h.ReadFile(nvidiaRuntime)
		require.NoError(t, err)
		require.Equal(t, string(real), string(got), how)
		require.False(t, h.Exists(nvidiaRuntime+realSuffix))
		require.Empty(t, diffed(t, h))
	}
	h, _ := predecessor(t, "cuda")
	require.NoError(t, h.Remove(nvidiaRuntime))
	require.NoError(t, h.Remove(nvidiaRuntime+realSuffix))
	hosttest.Link(t, h.Root, nvidiaRuntime, "/opt/bin/runc-gpu-wrapper")
	require.Contains(t, strings.Join(Remarks(h.Root), "\n"), "kept /usr/bin/nvidia-container-runtime: it is a wrapper of the Python charm, and the original is missing; install its package again")
}

// The exporter that could not be upgraded is stopped, and its unit goes last.
func TestD58PythonExporterIsRemoved(t *testing.T) {
	h, run := predecessor(t, "web")
	_, err := diffed(t, h).Apply(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"systemctl disable --now concourse-exporter.service", "systemctl daemon-reload"}, run.Ran)
	for _, p := range []string{"/etc/systemd/system/concourse-exporter.service", "/usr/local/bin/concourse-exporter.py", "/etc/concourse-exporter.env"} {
		require.False(t, h.Exists(p), p)
	}
	require.True(t, h.Exists("/usr/local/bin/fly"), "people use it")
}

// Keys and passwords leave the storage that all units read once they are kept
// elsewhere, and not before.
func TestD10D11WebsKeysLeaveSharedStorage(t *testing.T) {
	h, _ := predecessor(t, "lxc")
	shared, own := concourse.HomeWebFiles(), concourse.SeparateWebFiles()
	require.Equal(t, shared, WebFiles(h.Root, own))
	require.Equal(t, shared, WebFiles(h.Root, shared))
	require.Empty(t, resourcetest.Ops(t, h, SharedKeys(hosttest.Predecessor(t, "web"))...), "what is not shared is the web's own")

	hosttest.Put(t, h.Root, own.Env(), "CONCOURSE_BIND_PORT=8080\n")
	require.Equal(t, own, WebFiles(h.Root, own))
	require.Equal(t, []string{"remove /var/lib/concourse/config.env", "remove /var/lib/concourse/keys"}, resourcetest.Ops(t, h, SharedKeys(h.Root)...))
	require.NoError(t, resourcetest.Apply(t, h, SharedKeys(h.Root)...))
	require.Empty(t, resourcetest.Ops(t, h, SharedKeys(h.Root)...))
	require.True(t, h.Exists(release.SharedMarker))
}
