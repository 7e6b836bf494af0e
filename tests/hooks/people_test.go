package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// person runs dispatch as people do, without anything of Juju's.
func (u *unit) person(args ...string) (stdout, stderr string, code int) {
	u.t.Helper()
	out, err := u.RunAsOperator(args...)
	require.NoError(u.t, err)
	return out.Stdout, out.Stderr, out.Code
}

func TestWrongCommandLinesAreExplained(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("amd"), nil)
	for line, want := range map[string]string{
		"nonsense":            `cannot run dispatch "nonsense": no such command; see dispatch --help`,
		"cdi":                 "cannot run dispatch cdi without a command: want one of refresh, list, generate, validate; see dispatch cdi --help",
		"gpu lost":            `cannot run dispatch gpu "lost": no such command; did you mean list?; see dispatch gpu --help`,
		"explain":             `cannot run dispatch explain: want dispatch explain N... [--json]; see dispatch explain --help`,
		"gpu list --xml":      "cannot run dispatch gpu list: unknown flag: --xml; see dispatch gpu list --help",
		"gpu list --json now": `cannot run dispatch gpu list with "now": want dispatch gpu list [--json]; see dispatch gpu list --help`,
		"plan extra":          `cannot run dispatch plan with "extra": want dispatch plan; see dispatch plan --help`,
		"--verbose":           "cannot run dispatch: unknown flag: --verbose; see dispatch --help",
	} {
		stdout, stderr, code := u.person(strings.Fields(line)...)
		require.Equal(t, 2, code, line)
		require.Equal(t, want+"\n", stderr, line)
		require.Empty(t, stdout, line)
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	u := processUnit(t, fixture("amd"), nil)
	u.giveKey()
	for _, args := range [][]string{nil, {"--help"}, {"-h"}, {"help"}} {
		stdout, stderr, code := u.person(args...)
		require.Zero(t, code, args)
		require.Empty(t, stderr, args)
		for _, word := range []string{"Usage: dispatch COMMAND", "\n  plan ", "GPUs of this machine: top, list, detect, ", "CHARM_ROOT"} {
			require.Contains(t, stdout, word, args)
		}
	}
	for _, arg := range []string{"--version", "version"} {
		stdout, _, code := u.person(arg)
		require.Zero(t, code)
		require.Regexp(t, `^concourse-ci-machine \S+\n$`, stdout)
	}
}

// driverLine is what the plan of a unit in LXD reports first.
const driverLine = "driver: container: the LXD host has the driver amdgpu loaded, and it alone controls it\n"

func TestPlanForPeople(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("amd"), options{"compute-runtime": "rocm", "amd-container-toolkit": "skip"})
	_, stderr, code := u.person("plan")
	require.Equal(t, 1, code)
	require.Equal(t, "cannot plan: no hook has run on this machine yet\n", stderr)

	u.hook("install")
	u.web()
	u.flight("changed", "web/0")
	stdout, stderr, code := u.person("plan")
	require.Zero(t, code, stderr)
	require.Equal(t, driverLine+"nothing to do\n", stdout)

	require.NoError(t, u.Root.Remove("/etc/cdi/amd.json"))
	before := tree(u, "/etc", "/opt", "/run", "/var")
	stdout, _, code = u.person("plan")
	require.Zero(t, code)
	require.Equal(t, driverLine+"1/1 write /etc/cdi/amd.json (missing)\n", stdout)
	require.Empty(t, differences(before, tree(u, "/etc", "/opt", "/run", "/var")))
	require.Empty(t, u.Machine.Recorded())

	r, err := u.Action("plan", nil)
	u.fine("plan", r, err)
	require.Equal(t, "completed", r.Action.Status)
	require.Equal(t, map[string]any{"plan": driverLine + "1/1 write /etc/cdi/amd.json (missing)", "steps": "1"}, r.Action.Results)
	require.Empty(t, r.Commands)
}

func TestPlanOfAnotherUserNeedsSudo(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	t.Parallel()
	u := worker(t, fixture("amd"), nil)
	dir := u.Root.Path("/var/lib/concourse-ci-machine")
	require.NoError(t, os.Chmod(dir, 0))
	defer os.Chmod(dir, 0o700)
	_, stderr, code := u.person("plan")
	require.Equal(t, 1, code)
	require.Equal(t, "cannot plan: /var/lib/concourse-ci-machine/juju.json is readable by root only; run it with sudo\n", stderr)
}

func TestGPUListForPeopleAndAsAnAction(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("amd-nvidia"), nil)
	text, stderr, code := u.person("gpu", "list")
	require.Zero(t, code, stderr)
	require.Contains(t, text, "Found 1 AMD GPU device\n")
	r, err := u.Action("list-gpus", map[string]any{"format": "text"})
	u.fine("list-gpus", r, err)
	require.Equal(t, strings.TrimSpace(text), r.Action.Results["gpus"])

	list, stderr, code := u.person("gpu", "list", "--json")
	require.Zero(t, code, stderr)
	r, err = u.Action("list-gpus", map[string]any{"format": "json"})
	u.fine("list-gpus", r, err)
	require.Equal(t, strings.TrimSpace(list), r.Action.Results["gpus"])

	r, err = u.Action("make-coffee", nil)
	u.fine("make-coffee", r, err)
	require.Equal(t, "failed", r.Action.Status)
	require.Equal(t, `cannot run action "make-coffee": no such action`, r.Action.Message)
}

// A hook has Juju's environment, which has no HOME, and hands it on.
func TestHookNeedsNothingButJujusEnvironment(t *testing.T) {
	t.Parallel()
	u := processUnit(t, fixture("amd"), nil)
	u.giveKey()
	c := u.Command(u.Model.Begin(jujutest.Hook("install")))
	for _, v := range c.Env {
		name, _, _ := strings.Cut(v, "=")
		require.NotContains(t, []string{"HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"}, name)
	}
	path := filepath.Join(u.Dir, "tools", "config-get")
	real := filepath.Join(u.Dir, "config-get")
	require.NoError(t, os.Rename(path, real))
	seen := filepath.Join(u.Dir, "environment")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\ntr '\\0' '\\n' </proc/$PPID/environ >"+seen+"\nexec "+real+" \"$@\"\n"), 0o755))
	u.hook("install")
	text, err := os.ReadFile(seen)
	require.NoError(t, err)
	require.NotContains(t, "\n"+string(text), "\nHOME=")
	require.Contains(t, "\n"+string(text), "\nJUJU_DISPATCH_PATH=hooks/install\n")
}

// D32: the predecessor logged proxies with their passwords.
func TestD32ProxyPasswordIsInNoLogStatusOrCommandLine(t *testing.T) {
	t.Parallel()
	const password = "hunter2"
	u := newUnit(t, fixture("amd"), options{"compute-runtime": "rocm", "https-proxy": "http://user:" + password + "@127.0.0.1:9"})
	u.Model.Proxy.HTTP = "http://model:" + password + "@127.0.0.1:9"
	u.web()
	shown := func(what ...any) {
		t.Helper()
		for _, w := range what {
			switch w := w.(type) {
			case []string:
				require.NotContains(t, strings.Join(w, "\n"), password)
			case string:
				require.NotContains(t, w, password)
			case []jujutest.StatusLine:
				for _, s := range w {
					require.NotContains(t, s.Message, password)
				}
			case []jujutest.LogLine:
				for _, l := range w {
					require.NotContains(t, l.Message, password)
				}
			}
		}
	}
	for _, o := range []options{{}, {"amd-container-toolkit": "required"}, {"rocm-base-url": "https://repo.invalid"},
		{"https-proxy": "http://user:" + password + "@bad host"}} {
		u.set(o)
		r := u.flight("changed", "web/0")
		shown(r.Output, r.Statuses, r.Logs, r.Commands, r.Calls)
	}
	for path, kind := range tree(u, "/etc", "/opt", "/run", "/var") {
		if strings.HasPrefix(kind, "-") && strings.Contains(u.read(path), password) {
			st, err := u.Root.Stat(path)
			require.NoError(t, err)
			require.Zero(t, st.Mode().Perm()&0o007, "everybody may read %s", path)
		}
	}
	require.Contains(t, u.read("/var/lib/concourse-worker/worker-config.env"), password, "the worker does get it")
}
