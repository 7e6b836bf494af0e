package hooks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// action runs an action, which must leave the hook tools' exit status at 0.
func (u *unit) action(name string, params map[string]any) *jujutest.Action {
	u.t.Helper()
	r, err := u.Action(name, params)
	u.fine(name, r, err)
	require.NotContains(u.t, fmt.Sprint(r.Action.Results), " \n", "juju run would quote and fold it")
	return r.Action
}

// What questions that need no hook are answered, as an action
// and to a person.
func TestQuestionsForPeopleAndAsActions(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("mi210x4"), nil)
	for _, c := range []struct {
		action string
		params map[string]any
		key    string
		line   string
		code   int
	}{
		{"list-gpus", nil, "detected", "gpu detect", 0},
		{"explain-error", map[string]any{"format": "text"}, "explanation", "errors", 0},
		{"explain-error", map[string]any{"format": "json"}, "explanation", "errors --json", 0},
		{"get-pipelines", nil, "pipelines", "pipelines", 0},
		{"get-pipelines", map[string]any{"name": "rocm-pr.yml"}, "pipelines", "pipelines rocm-pr.yml", 0},
		{"explain-error", map[string]any{"code": 7}, "explanation", "explain 7", 0},
		{"gpu-health", map[string]any{"format": "json"}, "health", "gpu health --json", 1},
		{"verify-gpu", map[string]any{"format": "text"}, "verified", "gpu verify", 1},
	} {
		stdout, stderr, code := u.person(strings.Fields(c.line)...)
		require.Equal(t, c.code, code, "%s: %s", c.line, stderr)
		a := u.action(c.action, c.params)
		require.Equal(t, strings.TrimSpace(stdout), a.Results[c.key], c.action)
		require.NotContains(t, stdout, "\x1b")
		if c.code == 0 {
			require.Equal(t, "completed", a.Status, a.Message)
			continue
		}
		require.Equal(t, "failed", a.Status, c.action)
		require.Equal(t, strings.TrimSpace(stderr), a.Message, c.action)
	}
	require.Equal(t, "AMD GPU detected", u.action("list-gpus", nil).Results["detected"])
	require.Empty(t, u.Machine.Recorded(), "no tool of any vendor is asked")
}

func TestUnknownErrorCodeNamesTheKnownOnes(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("no-gpu"), nil)
	for _, params := range []map[string]any{{"code": 9}, {"code": "nine"}} {
		a := u.action("explain-error", params)
		require.Equal(t, "failed", a.Status)
		require.Contains(t, a.Message, "want one of 1 GPU Memory Error, 2 GPU Hang, 3 PCIe Error, ")
	}
}

// verify-gpu opens the nodes, each in its own process: the built program finds files
// instead of devices, and devices with no GPU behind.
func TestVerifyOpensTheNodes(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("amd"), nil)
	a := u.action("verify-gpu", nil)
	require.Equal(t, "cannot use every GPU node: 2 of 2 failed: /dev/kfd: not a character device; /dev/dri/renderD128: not a character device", a.Message)

	if found, _ := filepath.Glob("/dev/dri/*"); len(found) > 0 {
		t.Skip("this machine has a GPU behind the fixture's numbers")
	}
	node := u.Root.Path("/dev/dri/renderD128")
	require.NoError(t, os.Remove(node))
	err := unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(226, 128)))
	if errors.Is(err, unix.EPERM) {
		t.Skip("making device nodes takes root outside a container")
	}
	require.NoError(t, err)
	a = u.action("verify-gpu", nil)
	require.Equal(t, "failed", a.Status)
	require.Contains(t, a.Message, "/dev/dri/renderD128: cannot open it for reading and writing: no such device")
}

// A site without a way to AMD: no one needs the toolkit there, and the status has no word
// of it. Who asks is reported.
func TestToolkitOutOfReachIsForCheckStatusAlone(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("amd"), options{"compute-runtime": "rocm", "amd-container-toolkit": "auto", "rocm-base-url": "http://127.0.0.1:9"})
	s := u.hook("update-status").Status()
	require.Contains(t, s.Message, "(GPU: 1x AMD)")
	require.NotContains(t, s.Message, "toolkit")
	checks := u.action("check-status", nil).Results["checks"]
	require.Contains(t, checks, "ok      toolkit: amd-container-toolkit not installed: cannot reach 127.0.0.1:9 (attempt 1); tasks get their GPUs without it")
}
