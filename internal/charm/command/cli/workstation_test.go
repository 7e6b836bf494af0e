package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// gpukit runs a command line of gpukit, with variables of the environment.
func gpukit(t *testing.T, root host.Root, env map[string]string, line string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(wellknown.GPUKit, append([]string{"gpukit"}, strings.Fields(line)...), func(name string) string {
		if name == "CHARM_ROOT" {
			return string(root)
		}
		return env[name]
	}, &out, &errs)
	return code, out.String(), errs.String()
}

func TestGPUKitHasTheCommandsThatNeedNoUnit(t *testing.T) {
	root := hosttest.Host(t, "amd")
	code, help, _ := gpukit(t, root, nil, "")
	require.Zero(t, code)
	require.NotContains(t, help, "dispatch")
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"--version":  {0, "gpukit "},
		"gpu list":   {0, "Found 1 AMD GPU device"},
		"gpu status": {0, ""},
		"explain 2":  {0, "gpukit gpu verify"},
		"plan": {2,
			"cannot run gpukit plan: it needs a unit of the charm; there run: sudo dispatch plan; see gpukit --help"},
		"gpu quarantine 0 fan": {1, "no AMD GPU of this machine is watched yet; see systemctl status gpukit-gpus"},
		"gpu evidence":         {0, "no task of this machine had a GPU fault"},
		"fleet --json":         {2, "there run: sudo dispatch fleet"},
		"gpu lost": {2,
			`cannot run gpukit gpu "lost": no such command; did you mean list?; see gpukit gpu --help`},
		"detect":              {2, "want gpukit detect USER@HOST"},
		"detect a b":          {2, "want gpukit detect USER@HOST"},
		"install-exporter -x": {2, "unknown shorthand flag"},
	} {
		code, out, errs := gpukit(t, root, nil, line)
		require.Equal(t, want.code, code, "%s: %s", line, errs)
		require.Contains(t, out+errs, want.text, line)
	}
	code, _, errs := dispatch(t, "amd", "detect root@node")
	require.Equal(t, 2, code)
	require.Contains(t, errs, `cannot run dispatch "detect": no such command`, "only gpukit connects to other machines")
}

func TestFlagsHaveVariables(t *testing.T) {
	root := hosttest.Host(t, "mi210x4")
	for name, tt := range map[string]struct {
		env        map[string]string
		line       string
		code       int
		out, error string
	}{
		"set": {map[string]string{"GPUKIT_CDI_GENERATE_OUTPUT": "-", "GPUKIT_CDI_GENERATE_DEVICE": "2"},
			"cdi generate", 0, `"name": "2"`, ""},
		"flag wins": {map[string]string{"GPUKIT_CDI_GENERATE_DEVICE": "2"}, "cdi generate --output - --device 1", 0,
			`"name": "1"`, ""},
		"quiet": {map[string]string{"GPUKIT_CDI_REFRESH_QUIET": "true"}, "cdi refresh --dry-run", 0, "", ""},
		"wrong": {map[string]string{"GPUKIT_CDI_GENERATE_NO_ALL": "x"}, "cdi generate", 2, "",
			`cannot use GPUKIT_CDI_GENERATE_NO_ALL="x": `},
		"no GPU": {nil, "cdi generate --output - --device 7", 1, "",
			`cannot describe GPU "7": this machine has 0, 1, 2, 3`},
		"kept": {nil, "cdi generate --device 1", 2, "",
			"cannot store a selection in /etc/cdi/amd.json, which gpukit-cdi.service writes: " +
				"set GPUKIT_CDI_REFRESH_DEVICE"},
		"dry run with content": {nil, "cdi refresh --dry-run -v", 0,
			"1/1 write /etc/cdi/amd.json (missing)\n    {\"cdiVersion\"", ""},
		"two directions": {nil, "runtime configure docker --exclusive --remove", 2, "",
			"--exclusive excludes --shared and --remove"},
	} {
		code, out, errs := gpukit(t, root, tt.env, tt.line)
		require.Equal(t, tt.code, code, "%s: %s", name, errs)
		require.Contains(t, out, tt.out, name)
		require.Contains(t, errs, tt.error, name)
		if name == "quiet" {
			require.Empty(t, out+errs)
		}
	}
	require.False(t, root.Exists(cdi.Path), "nothing was written")
}

// The engine's file and the settings of leases come and go together.
func TestLeasesEndWithTheLastEngine(t *testing.T) {
	ofAllUsers(t)
	root := hosttest.Host(t, "mi210x4")
	for _, program := range []string{"/usr/bin/runc", "/usr/bin/runc-amd-wrapper"} {
		hosttest.Put(t, root, program, "")
		require.NoError(t, os.Chmod(root.Path(program), 0o755))
	}
	const wrapper = " --wrapper=/usr/bin/runc-amd-wrapper"
	run := func(line string) string {
		t.Helper()
		code, out, errs := gpukit(t, root, nil, line+wrapper)
		require.Zero(t, code, errs)
		return out
	}
	require.Contains(t, run("runtime configure podman --exclusive"), "only containers under the wrapper lease")
	run("runtime configure crio")
	require.True(t, root.Exists("/etc/concourse-ci-machine/wrapper.json"))
	run("runtime configure podman --remove")
	require.True(t, root.Exists("/etc/concourse-ci-machine/wrapper.json"), "CRI-O still leases")
	run("runtime configure crio --remove")
	require.False(t, root.Exists("/etc/concourse-ci-machine/wrapper.json"))

	run("runtime configure podman --exclusive")
	run("runtime configure podman --shared")
	require.False(t, root.Exists("/etc/concourse-ci-machine/wrapper.json"))
	require.True(t, root.Exists("/etc/containers/containers.conf.d/50-amd-gpu.conf"))
}

func TestReportReplacesNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	root := hosttest.Host(t, "amd")
	code, out, errs := gpukit(t, root, nil, "report -o "+file)
	require.Zero(t, code, errs)
	require.Contains(t, out, "wrote "+file+" with ")
	st, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	code, _, errs = gpukit(t, root, nil, "report -o "+file)
	require.Equal(t, 2, code)
	require.Contains(t, errs, "it exists; name another file with --output")
}

// A report is about a machine that does not work.
func TestReportOfAMachineWithUnreadableGPUs(t *testing.T) {
	root := hosttest.Host(t, "no-gpu")
	require.NoError(t, os.RemoveAll(root.Path("/sys/class/drm")))
	hosttest.Put(t, root, "/sys/class/drm", "not a folder")
	output := filepath.Join(t.TempDir(), "report.tar.gz")
	code, out, errs := gpukit(t, root, nil, "report --output "+output)
	require.Zero(t, code, errs)
	require.Contains(t, out, "wrote "+output)
	require.Contains(t, errs, "cannot list GPUs: ")
}

func TestRefusedUserGetsTheCommandForRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	root := hosttest.Host(t, "amd")
	require.NoError(t, os.Chmod(root.Path("/etc"), 0o555))
	t.Cleanup(func() { require.NoError(t, os.Chmod(root.Path("/etc"), 0o755)) })
	code, _, errs := gpukit(t, root, nil, "cdi generate")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "\nthis needs root: sudo gpukit cdi generate\n")
}
