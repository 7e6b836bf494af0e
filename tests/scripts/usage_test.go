package scripts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// alone runs a script that finds only bash's and the system's own tools.
func alone(t *testing.T, script string, args ...string) (code int, out, errs string) {
	t.Helper()
	c := exec.Command("../../scripts/"+script, args...)
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	c.Run() // its status is looked at by the caller
	return c.ProcessState.ExitCode(), o.String(), e.String()
}

func TestUsage(t *testing.T) {
	for script, rows := range map[string][]struct{ args, want string }{
		"pass-gpu.sh": {
			{"", "which unit?"},
			{"worker", `"worker" is no unit, such as rocm-worker/0`},
			{"w/0;reboot", "is no unit"},
			{"w/0 w/1", "one unit at a time, not w/0 and w/1"},
			{"w/0 --vendor", "--vendor needs a value"},
			{"w/0 --vendor --remove", "--vendor needs a value"},
			{"w/0 --vendor=intel", `"intel" is not one of amd, nvidia`},
			{"w/0 --pci 3:0", `"3:0" is no PCI address, such as 0000:03:00.0`},
			{"w/0 --force", "there is no option --force; there are: --vendor --pci --remove --dry-run --help"},
		},
		"mount-folder.sh": {
			{"", "which unit, or which application?"},
			{"w/0", "which folder of this host?"},
			{"W /data", `"W" is no unit or application, such as rocm-worker/0 or rocm-worker`},
			{"w/0 /a /b", "one folder at a time, not /a and /b"},
			{"w/0 /data --name a/b", `"a/b" can't be a name below /srv`},
			{"w/0 /data --name=", "--name needs a value"},
			{"w/0 --force", "there is no option --force; there are: --name --remove --dry-run --help"},
		},
		"share-storage.sh": {
			{"", "which unit, or which application?"},
			{"w", "which folder of this host?"},
			{"w /a /b", "one folder at a time, not /a and /b"},
			{"w /a --force", "there is no option --force; there are: --remove --dry-run --help"},
		},
		"deploy-test.sh": {
			{"--mode=all", `"all" is not one of auto, web+worker`},
			{"--mode", "--mode needs a value"},
			{"--mode all", `"all" is not one of auto, web+worker`},
			{"--shared-storage nfs", `"nfs" is not one of none, lxc`},
			{"--goto=pytorch", "there is no option --goto; there are: --mode --shared-storage"},
			{"--steps=", "--steps needs a value"},
			{"--steps=deploy,,verify", `there is no step ""`},
			{"--charm=a --channel=b", "--charm or --channel, not both"},
			{"--pci=03:00.0 --gpu-id=1", "--pci or --gpu-id, not both"},
			{"--pci=x", "is no PCI address"},
			{"--gpu-id=x", `"x" is no number`},
			{"extra", "there is no option extra"},
		},
	} {
		for _, row := range rows {
			t.Run(script+" "+row.args, func(t *testing.T) {
				code, out, errs := alone(t, script, strings.Fields(row.args)...)
				require.Equal(t, 2, code)
				require.Empty(t, out)
				require.Contains(t, errs, row.want)
				require.Contains(t, errs, "Run "+script+" --help for the options.")
			})
		}
	}
}

// gpu was no step and CI passed with it for a year.
func TestD62UnknownStepsAreRefused(t *testing.T) {
	for _, dry := range []string{"", "--dry-run"} {
		code, out, errs := alone(t, "deploy-test.sh", strings.Fields(dry+" --steps=deploy,gpu")...)
		require.Equal(t, 2, code)
		require.Empty(t, out)
		require.Contains(t, errs, `there is no step "gpu"; there are: deploy verify verify-marker mounts tagged rocm pytorch cuda upgrade scale-out config vault destroy`)
	}
}

func TestHelp(t *testing.T) {
	for _, script := range []string{"pass-gpu.sh", "share-storage.sh", "mount-folder.sh", "deploy-test.sh"} {
		code, out, errs := alone(t, script, "--help")
		require.Zero(t, code, errs)
		hosttest.Golden(t, "testdata/"+script+".help", out)
	}
	// Every step has a line, and one function.
	_, out, _ := alone(t, "deploy-test.sh", "--help")
	_, listed, _ := strings.Cut(out, "\nSteps:\n")
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, len(line), 81, line)
	}
	for _, step := range append([]string{"verify-marker", "pytorch"}, allSteps...) {
		require.Regexp(t, `(?m)^  `+step+` +\w`, listed)
	}
}

var allSteps = strings.Fields("deploy verify mounts tagged rocm cuda upgrade scale-out config vault destroy")

func TestDryRun(t *testing.T) {
	for name, args := range map[string]string{"auto": "", "web+worker": "--mode=web+worker --skip-cleanup --channel=latest/edge --gpu-id=1",
		"pci": "--steps=rocm,cuda --pci=03:00.0 --charm=my.charm", "lxc": "--shared-storage lxc --mode web+worker --steps deploy,verify-marker,pytorch,scale-out,config"} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := alone(t, "deploy-test.sh", append(strings.Fields(args), "--dry-run")...)
			require.Zero(t, code, errs)
			// The architecture of this machine's charm is not a matter of the script's.
			out = regexp.MustCompile(`_(amd64|arm64)\.charm`).ReplaceAllString(out, "_ARCH.charm")
			hosttest.Golden(t, "testdata/dry-run-"+name+".txt", out)
		})
	}
}

// A task that fails must have a tag that a worker has: the tags of the pipelines.
func TestD43TasksRunWithTheWorkersTags(t *testing.T) {
	_, out, _ := alone(t, "deploy-test.sh", "--dry-run", "--steps=rocm,cuda")
	for _, runtime := range []string{"rocm", "cuda"} {
		require.Contains(t, out, " --tag gpu --tag compute-runtime="+runtime+" ")
	}
}

// Whoever has none of them installs them in one go.
func TestMissingProgramsAreReportedAtOnce(t *testing.T) {
	bin := t.TempDir()
	for _, tool := range []string{"bash", "dirname", "basename", "uname", "sed", "mktemp", "rm"} {
		path, err := exec.LookPath(tool)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(bin, tool)))
	}
	for script, args := range map[string]string{"pass-gpu.sh": "w/0", "mount-folder.sh": "w/0 /a", "share-storage.sh": "w /", "deploy-test.sh": "--shared-storage=lxc"} {
		c := exec.Command("../../scripts/"+script, strings.Fields(args)...)
		c.Env = []string{"PATH=" + bin}
		out, _ := c.CombinedOutput()
		require.Equal(t, 1, c.ProcessState.ExitCode(), string(out))
		require.Contains(t, string(out), "error: programs are missing:\n")
		for _, program := range []string{"juju is not installed; run: sudo snap install juju\n", "lxc is not installed; run: sudo snap install lxd\n", "jq is not installed; run: sudo apt-get install -y jq\n"} {
			require.Contains(t, string(out), program, script)
		}
	}
}
