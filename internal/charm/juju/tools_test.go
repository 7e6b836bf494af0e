package juju_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// The test binary also serves as the hook tools.
func TestMain(m *testing.M) {
	if jujutest.IsTool(os.Args[0]) {
		os.Exit(jujutest.ToolMain(os.Args, os.Stdin, os.Stdout, os.Stderr, os.Getenv))
	}
	os.Exit(m.Run())
}

// both runs a test with tools in the process, and with real commands that
// host.Exec finds on PATH.
func both(t *testing.T, begin func(*jujutest.Model) *jujutest.Context, f func(t *testing.T, m *jujutest.Model, c *jujutest.Context, tools *juju.Tools)) {
	t.Run("in process", func(t *testing.T) {
		m := jujutest.CaseModel(false)
		c := begin(m)
		tools := juju.New(c.Runner(nil))
		f(t, m, c, tools)
	})
	t.Run("real commands", func(t *testing.T) {
		m := jujutest.CaseModel(false)
		c := begin(m)
		dir := t.TempDir()
		exe, err := os.Executable()
		require.NoError(t, err)
		require.NoError(t, jujutest.InstallTools(filepath.Join(dir, "tools"), exe))
		s, err := jujutest.Serve(filepath.Join(dir, "socket"), func() *jujutest.Context { return c })
		require.NoError(t, err)
		defer s.Close()
		for _, kv := range c.HookEnv(filepath.Join(dir, "socket"), filepath.Join(dir, "tools")) {
			k, v, _ := strings.Cut(kv, "=")
			t.Setenv(k, v)
		}
		t.Setenv("GORACE", "atexit_sleep_ms=0") // the commands are this binary
		tools := juju.New(ordered{m})
		f(t, m, c, tools)
	})
}

// ordered runs real commands. Reading the model before and after orders the server's
// goroutine with the test.
type ordered struct{ m *jujutest.Model }

func (o ordered) Run(ctx context.Context, c host.Command) ([]byte, error) {
	o.m.Status()
	defer o.m.Status()
	return host.Exec{}.Run(ctx, c)
}

func hook(m *jujutest.Model) *jujutest.Context { return m.Begin(jujutest.Hook("config-changed")) }

var ctx = context.Background()

func TestConfigIsTyped(t *testing.T) {
	both(t, hook, func(t *testing.T, m *jujutest.Model, _ *jujutest.Context, tools *juju.Tools) {
		m.Config["big"] = int64(9007199254740993) // more than a float64 holds
		m.Config["ratio"] = 0.5
		got, err := tools.Config(ctx)
		require.NoError(t, err)
		require.Equal(t, map[string]any{
			"port": int64(8080), "name": "x", "flag": true, "big": int64(9007199254740993), "ratio": 0.5,
		}, got)
	})
}

func TestLeader(t *testing.T) {
	both(t, hook, func(t *testing.T, m *jujutest.Model, _ *jujutest.Context, tools *juju.Tools) {
		leads, err := tools.IsLeader(ctx)
		require.NoError(t, err)
		require.True(t, leads)
		m.Leader = false
		leads, err = tools.IsLeader(ctx)
		require.NoError(t, err)
		require.False(t, leads)
	})
}

func TestErrorsHaveTheMessageOfTheTool(t *testing.T) {
	both(t, hook, func(t *testing.T, m *jujutest.Model, _ *jujutest.Context, tools *juju.Tools) {
		m.Leader = false
		err := tools.RelationSetApp(ctx, "db:7", map[string]string{"a": "1"})
		require.EqualError(t, err, "cannot run relation-set: cannot write relation settings")
		var tool *juju.ToolError
		require.ErrorAs(t, err, &tool)
		require.Equal(t, 1, tool.Code)
		var command *host.CommandError
		require.ErrorAs(t, err, &command)
		require.NotErrorIs(t, err, juju.ErrNotFound)
		_, err = tools.RelationUnits(ctx, "db:9")
		require.EqualError(t, err, `cannot run relation-list: invalid value "db:9" for option -r: relation not found`)
		require.NotErrorIs(t, err, juju.ErrNotFound, "a wrong call is no answer")
	})
}

func TestToolThatDoesNotStart(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := juju.New(host.Exec{}).IsLeader(ctx)
	var tool *juju.ToolError
	require.ErrorAs(t, err, &tool)
	require.Equal(t, -1, tool.Code)
	require.ErrorContains(t, err, "executable file not found")
}

func TestErrorOfInvalidOutputDoesNotQuoteIt(t *testing.T) {
	run := hosttest.NewRunner(t).Answer("secret-get", "s3cret").Answer("config-get", "")
	tools := juju.New(run)
	_, err := tools.SecretGet(ctx, "secret:x")
	require.ErrorContains(t, err, "cannot read the output of secret-get")
	require.NotContains(t, err.Error(), "s3cret")
	_, err = tools.Config(ctx)
	require.ErrorContains(t, err, "cannot read the output of config-get")
}

// A plan may read and must not write: the Runner goes by this mark.
func TestReadingToolsAreMarkedReadOnly(t *testing.T) {
	run := hosttest.NewRunner(t).Answer("config-get", "{}").Answer("secret-get", "{}").Answer("status-set", "").Answer("resource-get", "/r")
	tools := juju.New(run)
	for _, f := range []func() error{
		func() error { _, err := tools.Config(ctx); return err },
		func() error { _, err := tools.ResourceGet(ctx, "r"); return err },
		func() error { _, err := tools.SecretGet(ctx, "l"); return err },
		func() error { _, err := tools.SecretRefresh(ctx, "l"); return err },
		func() error { return tools.StatusSet(ctx, juju.Active, "") },
	} {
		require.NoError(t, f())
	}
	require.Equal(t, []string{"config-get --format=json", "resource-get r", "secret-get --format=json l"}, run.Asked)
	require.Equal(t, []string{"secret-get --format=json --refresh l", "status-set -- active "}, run.Ran)
}

func TestResource(t *testing.T) {
	both(t, hook, func(t *testing.T, m *jujutest.Model, _ *jujutest.Context, tools *juju.Tools) {
		_, err := tools.ResourceGet(ctx, "concourse-release")
		var missing *juju.ResourceError
		require.ErrorAs(t, err, &missing)
		require.Equal(t, "concourse-release", missing.Name)
		m.Resources["concourse-release"] = "/var/lib/juju/r.tgz"
		path, err := tools.ResourceGet(ctx, "concourse-release")
		require.NoError(t, err)
		require.Equal(t, "/var/lib/juju/r.tgz", path)
	})
	_, err := juju.New(hosttest.NewRunner(t).Answer("resource-get", "")).ResourceGet(ctx, "r")
	require.ErrorContains(t, err, "not a path")
	var missing *juju.ResourceError
	require.False(t, errors.As(err, &missing))
}
