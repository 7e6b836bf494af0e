package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// dispatch runs a command line on a fixture host.
func dispatch(t *testing.T, host, line string) (code int, stdout, stderr string) {
	t.Helper()
	return dispatchWords(t, host, append([]string{"dispatch"}, strings.Fields(line)...)...)
}

func dispatchWords(t *testing.T, host string, words ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := string(hosttest.Host(t, host))
	code = Main(wellknown.Dispatch, words, func(name string) string {
		return map[string]string{"CHARM_ROOT": root}[name]
	}, &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitStatus(t *testing.T) {
	for line, want := range map[string]struct {
		host           string
		code           int
		stdout, stderr string
	}{
		"gpu detect":        {"both-passed", 0, "AMD GPU detected\nNVIDIA GPU detected\n", ""},
		"gpu detect ":       {"no-gpu", 1, "No GPU detected\n", "cannot find a GPU: dispatch gpu list shows why\n"},
		"gpu list":          {"no-gpu", 0, "No GPU detected\n", ""},
		"gpu verify":        {"no-gpu", 1, "", "cannot verify: No GPU detected"},
		"gpu verify --json": {"amd", 1, `"ok": false`, "cannot use every GPU node: 2 of 2 failed: "},
		"gpu health":        {"amd", 0, "GPU 0   healthy", ""},
		"gpu health --json": {"mi210x4", 1, `"state": "critical"`, "cannot rely on 1 of 4 GPUs: GPU 3: "},
		"errors":            {"no-gpu", 0, "   2  GPU Hang                   Critical  A ring or the firmware of the GPU", ""},
		"errors --json":     {"no-gpu", 0, `"name": "GPU Hang"`, ""},
		"explain 2":         {"no-gpu", 0, "ROCm Error 2: GPU Hang\n", ""},
		"explain 1 7":       {"no-gpu", 0, "ROCm Error 7: ", ""}, // as gpu health prints it
		"explain 2 --json":  {"no-gpu", 0, `"severity": "Critical"`, ""},

		"pipelines":                  {"amd", 0, "rocm-build.yml\n", ""},
		"pipelines vars/rocm-pr.yml": {"amd", 0, "pr-tag: untrusted\n", ""},
		"pipelines a b":              {"amd", 2, "", `cannot run dispatch pipelines with "a b": want dispatch pipelines [FILE]; see dispatch pipelines --help`},
		"pipelines /etc/passwd":      {"amd", 1, "", `cannot print "/etc/passwd": no such pipeline or task`},

		"fleet":       {"amd", 1, "", "cannot show the fleet: no hook has run on this machine yet\n"},
		"fleet --all": {"amd", 2, "", "cannot run dispatch fleet: unknown flag: --all; see dispatch fleet --help\n"},

		"gpu probe /dev/dri/renderD128": {"amd", 1, "", "not a character device\n"},
		"gpu probe /dev/kfd":            {"no-gpu", 1, "", "cannot open it for reading and writing: no such file or directory\n"},

		"gpu snapshot --json": {"amd", 2, "", "cannot run dispatch gpu snapshot: unknown flag: --json"},

		"explain": {"amd", 2, "",
			"cannot run dispatch explain: want dispatch explain N... [--json]; see dispatch explain --help\n"},
		"explain --json":                {"amd", 2, "", `cannot run dispatch explain: `},
		"explain 9":                     {"amd", 2, "", "cannot explain error code 9: want one of 1 GPU Memory Error, 2 GPU Hang, "},
		"explain hang":                  {"amd", 2, "", `cannot explain error code "hang": want one of 1 GPU Memory Error, `},
		"explain 2 hang":                {"amd", 2, "", `cannot explain error code "hang": want one of 1 GPU Memory Error, `},
		"errors all":                    {"amd", 2, "", `cannot run dispatch errors with "all": want dispatch errors [--json]; see dispatch errors --help` + "\n"},
		"gpu":                           {"amd", 2, "", "cannot run dispatch gpu without a command: want one of top, list, detect, "},
		"gpu lost":                      {"amd", 2, "", `cannot run dispatch gpu "lost": no such command; did you mean list?; see dispatch gpu --help` + "\n"},
		"gpu detect --json":             {"amd", 2, "", "cannot run dispatch gpu detect: unknown flag: --json; see dispatch gpu detect --help\n"},
		"gpu health now":                {"amd", 2, "", `cannot run dispatch gpu health with "now": want dispatch gpu health [--json]; see dispatch gpu health --help` + "\n"},
		"gpu verify --json 1":           {"amd", 2, "", `cannot run dispatch gpu verify with "1": want dispatch gpu verify [--json]; see dispatch gpu verify --help` + "\n"},
		"gpu status":                    {"amd", 0, "gpu-sharing=shared: GPUs are not leased\n", ""},
		"gpu status --json":             {"amd", 0, `"sharing": "shared"`, ""},
		"gpu status 0":                  {"amd", 2, "", `cannot run dispatch gpu status with "0": want `},
		"gpu release":                   {"amd", 2, "", `cannot run dispatch gpu release: want dispatch gpu release GPU [--force]; see dispatch gpu release --help` + "\n"},
		"gpu release --force":           {"amd", 2, "", `cannot run dispatch gpu release: want `},
		"gpu release 0 now":             {"amd", 2, "", `cannot run dispatch gpu release with "0 now": want `},
		"gpu release 0":                 {"amd", 1, "", `cannot release GPU "0": gpu-sharing=shared: GPUs are not leased` + "\n"},
		"gpu release 0 --force":         {"amd", 1, "", `cannot release GPU "0": gpu-sharing=shared: GPUs are not leased` + "\n"},
		"gpu watch":                     {"amd", 0, "", ""},
		"gpu quarantine 0":              {"amd", 2, "", `cannot run dispatch gpu quarantine with "0": want dispatch gpu quarantine GPU REASON; `},
		"gpu quarantine 0 a fan":        {"amd", 1, "", `cannot quarantine GPU "0": no AMD GPU of this unit is watched yet; see juju status` + "\n"},
		"gpu return":                    {"amd", 2, "", `cannot run dispatch gpu return: want dispatch gpu return GPU; `},
		"gpu return 0":                  {"amd", 1, "", `cannot return GPU "0": no AMD GPU of this unit is watched yet; see juju status` + "\n"},
		"gpu check":                     {"amd", 2, "", `cannot run dispatch gpu check: want `},
		"gpu check 0":                   {"amd", 1, "", `cannot check GPU "0": no AMD GPU of this unit is watched yet; see juju status` + "\n"},
		"gpu record-check 0000:0a:00.0": {"amd", 1, "", `cannot check GPU "0000:0a:00.0": it is not known` + "\n"},
		"gpu leases":                    {"amd", 0, "gpu-sharing=shared: GPUs are not leased\n", ""},
		"gpu probe":                     {"amd", 2, "", `cannot run dispatch gpu probe: want dispatch gpu probe NODE; see dispatch gpu probe --help` + "\n"},

		"gpu top --help":           {"amd", 0, "Usage: dispatch gpu top [--interval=TIME] [--json] [--once]\n", ""},
		"gpu top":                  {"amd", 0, "not live: ", ""},
		"gpu top --once":           {"amd", 0, "not live: the exporter watches this machine, not CHARM_ROOT", ""},
		"gpu top --interval=1h30m": {"amd", 0, "not live: ", ""},
		"gpu top 0":                {"amd", 2, "", `cannot run dispatch gpu top with "0": want `},
		"gpu top --interval=999ms": {"amd", 2, "", "cannot show who uses the GPUs every 999ms: want 1s or more; see dispatch gpu top --help\n"},
		"gpu top --interval soon":  {"amd", 2, "", `cannot run dispatch gpu top: invalid argument "soon" for "--interval" flag: `},
		"gpu top --all":            {"amd", 2, "", "cannot run dispatch gpu top: unknown flag: --all; see dispatch gpu top --help\n"},

		"completion":                      {"amd", 2, "", "cannot run dispatch completion without a command: want one of bash, zsh, fish, powershell; see dispatch completion --help\n"},
		"completion tcsh":                 {"amd", 2, "", `cannot run dispatch completion "tcsh": no such command; `},
		"completion zsh":                  {"amd", 0, "#compdef dispatch", ""},
		"runtime":                         {"amd", 2, "", "cannot run dispatch runtime without a command: want one of configure; see dispatch runtime --help\n"},
		"runtime --help":                  {"amd", 0, "Usage: dispatch runtime COMMAND\n", ""},
		"runtime configure --help":        {"amd", 0, "Usage: dispatch runtime configure docker|podman|containerd|crio\n        [--config-path=PATH]", ""},
		"runtime configure":               {"amd", 2, "", `cannot configure "": want one of docker, podman, containerd, crio; see dispatch runtime configure --help` + "\n"},
		"runtime configure lxc":           {"amd", 2, "", `cannot configure "lxc": want one of docker, podman, containerd, crio; see dispatch runtime configure --help` + "\n"},
		"runtime configure docker podman": {"amd", 2, "", `cannot run dispatch runtime configure with "docker podman": want `},
		"runtime configure docker --remove --set-as-default":           {"amd", 2, "", "cannot do both: --set-as-default, --unset-as-default and --remove exclude each other; see dispatch runtime configure --help\n"},
		"runtime configure docker --set-as-default --unset-as-default": {"amd", 2, "", "cannot do both: "},
		"runtime configure docker --all":                               {"amd", 2, "", "cannot run dispatch runtime configure: unknown flag: --all; see dispatch runtime configure --help\n"},
		"runtime configure docker --wrapper=/nowhere":                  {"amd", 1, "", "cannot configure docker: program /nowhere is missing; --wrapper=PATH names runc-amd-wrapper\n"},
		"runtime configure --runtime=docker --remove":                  {"amd", 0, "nothing to do\n", ""},
		"kubernetes":                      {"amd", 2, "", "cannot run dispatch kubernetes without a command: want one of labels, manifest; see dispatch kubernetes --help\n"},
		"kubernetes --help":               {"amd", 0, "Usage: dispatch kubernetes COMMAND\n", ""},
		"kubernetes labels all":           {"amd", 2, "", `cannot run dispatch kubernetes labels with "all": want `},
		"kubernetes labels --all":         {"amd", 2, "", "cannot run dispatch kubernetes labels: unknown flag: --all; see dispatch kubernetes labels --help\n"},
		"kubernetes labels":               {"amd", 0, "amd.com/gpu=true\n", ""},
		"kubernetes labels --json":        {"amd", 0, `"gpu": "true"`, ""},
		"kubernetes manifest":             {"amd", 2, "", `cannot run dispatch kubernetes manifest: want `},
		"kubernetes manifest node --json": {"amd", 2, "", "cannot run dispatch kubernetes manifest: unknown flag: --json"},
		"kubernetes manifest node-1":      {"amd", 0, "apiVersion: v1\nkind: Node\nmetadata:\n    name: node-1\n", ""},
		"kubernetes manifest Node":        {"amd", 1, "", `cannot label node "Node": no node can have that name; kubectl get nodes has the names` + "\n"},
		"kubernetes labels --json ":       {"no-gpu", 1, "", "cannot label a node: this machine has no AMD GPU that counts; dispatch gpu list shows its GPUs\n"},
		"cdi":                             {"amd", 2, "", "cannot run dispatch cdi without a command: want one of refresh, list, generate, validate; see dispatch cdi --help\n"},
		"cdi lost":                        {"amd", 2, "", `cannot run dispatch cdi "lost": no such command; did you mean list?; see dispatch cdi --help` + "\n"},
		"cdi --help":                      {"amd", 0, "Usage: dispatch cdi COMMAND\n", ""},
		"cdi refresh --help":              {"amd", 0, "Usage: dispatch cdi refresh\n", ""},
		"cdi refresh now":                 {"amd", 2, "", `cannot run dispatch cdi refresh with "now": want `},
		"cdi list --help":                 {"amd", 0, "Usage: dispatch cdi list [--json]\n", ""},
		"cdi list 0":                      {"amd", 2, "", `cannot run dispatch cdi list with "0": want `},
		"cdi list --all":                  {"amd", 2, "", "cannot run dispatch cdi list: unknown flag: --all; see dispatch cdi list --help\n"},
		"cdi generate --help":             {"amd", 0, "Usage: dispatch cdi generate [--device=GPU] [--dry-run] [--format=NAME]\n", ""},
		"cdi generate x.json":             {"amd", 2, "", `cannot run dispatch cdi generate with "x.json": want dispatch cdi generate `},
		"cdi generate --output=":          {"amd", 2, "", "cannot describe GPUs in a file without a name: want --output=FILE, or - for standard output; see dispatch cdi generate --help\n"},
		"cdi generate --format=x":         {"amd", 2, "", `cannot describe GPUs as "x": want json or yaml; see dispatch cdi generate --help` + "\n"},
		"cdi generate --format=yaml":      {"amd", 2, "", "cannot write YAML to /etc/cdi/amd.json: want another --output, or - for standard output; see dispatch cdi generate --help\n"},
		"cdi validate --help":             {"amd", 0, "Usage: dispatch cdi validate [FILE] [--json] [--path=FILE]\n", ""},
		"cdi validate a b":                {"amd", 2, "", `cannot run dispatch cdi validate with "a b": want `},
		"cdi validate":                    {"amd", 1, "", "cannot read /etc/cdi/amd.json: the file is missing; dispatch cdi generate --output /etc/cdi/amd.json makes it\n"},
	} {
		code, stdout, stderr := dispatch(t, want.host, line)
		require.Equal(t, want.code, code, "%s: %s", line, stderr)
		require.Contains(t, stdout, want.stdout, line)
		require.Contains(t, stderr, want.stderr, line)
		require.NotContains(t, stdout, "\x1b", line)
		if want.code != 1 {
			require.Equal(t, want.stdout == "", stdout == "", line)
			require.Equal(t, want.stderr == "", stderr == "", line)
		}
		if strings.HasSuffix(line, "--json") && code != 2 {
			require.True(t, json.Valid([]byte(stdout)), line)
		}
	}
}

// pseudoTerminal opens a pseudo-terminal: master reads what is written to slave.
func pseudoTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func TestColoursAreForTerminals(t *testing.T) {
	master, slave := pseudoTerminal(t)
	_, plain, _ := dispatch(t, "no-gpu", "errors")
	for name, c := range map[string]struct {
		env     map[string]string
		colours bool
	}{
		"a terminal":           {nil, true},
		"NO_COLOR":             {map[string]string{"NO_COLOR": "1"}, false},
		"a terminal without":   {map[string]string{"TERM": "dumb"}, false},
		"an empty NO_COLOR":    {map[string]string{"NO_COLOR": ""}, true},
		"a terminal with them": {map[string]string{"TERM": "xterm"}, true},
	} {
		var errs bytes.Buffer
		require.Zero(t, Main(wellknown.Dispatch, []string{"dispatch", "errors"}, func(key string) string { return c.env[key] }, slave, &errs))
		buffer := make([]byte, 4096)
		var got string
		for !strings.Contains(got, "loses data\r\n") {
			n, err := master.Read(buffer)
			require.NoError(t, err)
			got += string(buffer[:n])
		}
		require.Equal(t, c.colours, strings.Contains(got, "\x1b[1;31mCritical\x1b[0m"), name)
		if !c.colours {
			require.Equal(t, plain, strings.ReplaceAll(got, "\r\n", "\n"), name)
		}
	}

	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	require.Nil(t, term.Terminal(file, func(string) string { return "" }))
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	require.Nil(t, term.Terminal(null, func(string) string { return "" }), "a character device, and no terminal")
}

func TestGPUBaselineIsTheCharmsProgram(t *testing.T) {
	var started []string
	execProgram = func(file string, argv, env []string) error {
		started = append([]string{file}, argv[1:]...)
		return syscall.ENOENT
	}
	t.Cleanup(func() { execProgram = syscall.Exec })
	code, _, stderr := dispatch(t, "no-gpu", "gpu-baseline compare a b --help")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "gpu-baseline: no such file or directory")
	require.Regexp(t, "/bin/gpu-baseline$", started[0])
	require.Equal(t, []string{"compare", "a", "b", "--help"}, started[1:])
}

// An image of Kubernetes has no shell that could redirect the labels. Without a GPU the file
// is empty, so that labels of a removed GPU end.
func TestLabelsAreWrittenToAFile(t *testing.T) {
	for host, want := range map[string]string{"amd": "gpu=true\n", "no-gpu": ""} {
		root := string(hosttest.Host(t, host))
		var out, errs bytes.Buffer
		code := Main(wellknown.Dispatch, []string{"dispatch", "kubernetes", "labels", "--output", "/features/concourse-gpu"}, func(name string) string {
			return map[string]string{"CHARM_ROOT": root}[name]
		}, &out, &errs)
		require.Zero(t, code, errs.String())
		require.Empty(t, out.String())
		data, err := os.ReadFile(root + "/features/concourse-gpu")
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, data)
		}
		require.Contains(t, string(data), want)
	}
}
