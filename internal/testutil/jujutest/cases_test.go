package jujutest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// answers runs one tool and returns what a caller sees of it.
type answers func(c *Context, argv []string, stdin string) (stdout, stderr string, code int)

func runCase(t *testing.T, c Case, run answers) {
	m := CaseModel(c.Follower)
	ctx := c.Begin(m)
	out := ""
	for _, argv := range c.Before {
		for k := range argv {
			argv[k] = strings.ReplaceAll(argv[k], "$OUT", strings.TrimSpace(out))
		}
		stdout, stderr, code := run(ctx, argv, "")
		require.Zero(t, code, "%v: %s", argv, stderr)
		out = stdout
	}
	stdout, stderr, code := run(ctx, c.Argv(out), c.Stdin)
	if c.Pattern {
		match(t, c.Stdout, stdout)
		match(t, c.Stderr, stderr)
	} else {
		require.Equal(t, c.Stdout, stdout)
		require.Equal(t, c.Stderr, stderr)
	}
	require.Equal(t, c.Code, code)
	if err := ctx.Commit(); c.Refused == "" {
		require.NoError(t, err)
	} else {
		require.ErrorContains(t, err, c.Refused)
	}
}

func match(t *testing.T, pattern, got string) {
	if pattern == "" {
		require.Empty(t, got)
		return
	}
	require.Regexp(t, pattern, got)
}

func TestCasesInProcess(t *testing.T) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			runCase(t, c, func(ctx *Context, argv []string, stdin string) (string, string, int) {
				return ctx.Run(argv, []byte(stdin))
			})
		})
	}
}

// real runs tools as commands that talk to a server over a socket.
func real(t *testing.T, socket, tools string) answers {
	return func(c *Context, argv []string, stdin string) (string, string, int) {
		cmd := exec.Command(filepath.Join(tools, argv[0]), argv[1:]...)
		// The rest is for the test binary built with -cover or -race.
		cmd.Env = append(c.HookEnv(socket, tools), "GOCOVERDIR="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
		var out, errb bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errb
		cmd.Run()
		return out.String(), errb.String(), cmd.ProcessState.ExitCode()
	}
}

func install(t *testing.T) (socket, tools string) {
	dir := t.TempDir()
	exe, err := os.Executable()
	require.NoError(t, err)
	tools = filepath.Join(dir, "tools")
	require.NoError(t, InstallTools(tools, exe))
	require.NoError(t, InstallTools(tools, exe), "a second time is no error")
	return filepath.Join(dir, "agent.socket"), tools
}

func TestCasesThroughTheSocket(t *testing.T) {
	socket, tools := install(t)
	var current atomic.Pointer[Context]
	s, err := Serve(socket, current.Load)
	require.NoError(t, err)
	defer s.Close()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			run := real(t, socket, tools)
			runCase(t, c, func(ctx *Context, argv []string, stdin string) (string, string, int) {
				current.Store(ctx)
				return run(ctx, argv, stdin)
			})
		})
	}
}

func TestCaseNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	covered := map[string]bool{}
	for _, c := range Cases() {
		require.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
		covered[c.Args[0]] = true
		for _, b := range c.Before {
			covered[b[0]] = true
		}
	}
	delete(covered, "")
	for _, tool := range ToolNames() {
		if tool != "goal-state" { // its times are the controller's
			require.True(t, covered[tool], "no case for %s", tool)
		}
	}
}
