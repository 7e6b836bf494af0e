package onemachine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The pipeline reads relations from the state as a hook reads them from Juju.
func TestStateHasTheRelationsOfAUnit(t *testing.T) {
	ctx := t.Context()
	m := machineOn(t, hosttest.Root(t)).Model
	has := func(endpoint string) bool {
		ids, err := m.RelationIDs(ctx, endpoint)
		require.NoError(t, err)
		return len(ids) == 1
	}
	require.True(t, has("peers"))
	for _, endpoint := range []string{"postgresql", "tsa", "flight", "vault"} {
		require.False(t, has(endpoint), endpoint)
	}

	m.state.Workers = map[string]map[string]string{"b/0": {workerKey: "k"}, "a/0": {}}
	require.True(t, has("tsa"))
	units, err := m.RelationUnits(ctx, workersID)
	require.NoError(t, err)
	require.Equal(t, []string{"a/0", "b/0"}, units)
	bag, err := m.RelationGet(ctx, workersID, "b/0")
	require.NoError(t, err)
	require.Equal(t, map[string]string{workerKey: "k"}, bag)

	m.state.Web = map[string]string{tsaHost: "10.0.0.1:2222"}
	require.True(t, has("flight"))
	units, err = m.RelationUnits(ctx, webID)
	require.NoError(t, err)
	require.Equal(t, []string{"web/0"}, units)
	bag, err = m.RelationGet(ctx, webID, "web/0")
	require.NoError(t, err)
	require.Equal(t, m.state.Web, bag)
	for id, unit := range map[string]string{webID: "b/0", peersID: "web/0", workersID: "web/0"} {
		bag, err := m.RelationGet(ctx, id, unit)
		require.NoError(t, err)
		require.Empty(t, bag, "%s %s", id, unit)
	}
	units, err = m.RelationUnits(ctx, peersID)
	require.NoError(t, err)
	require.Empty(t, units, "it is the only unit")

	require.NoError(t, m.RelationSetApp(ctx, workersID, map[string]string{"tsa-host": "x"}))
	bag, err = m.RelationGetApp(ctx, workersID, juju.AppOf(m.state.Unit))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"tsa-host": "x"}, bag)
}

// The password of the machine's database is in no argument, which each user can read.
func TestDatabaseOfTheMachineIsReachedByItsSocket(t *testing.T) {
	m := machineOn(t, hosttest.Root(t)).Model
	for text, want := range map[string]bool{"mode: all": true, "mode: worker": false, "{mode: all, database-url: x}": false} {
		options, err := parseOptions([]byte(text))
		require.NoError(t, err)
		m.options = options
		require.Equal(t, want, m.wantsDatabase(), text)
	}
	m.options = nil
	require.Nil(t, m.database())
	m.state.Database = &database{Cluster: "c", Password: "hunter2"}
	require.Nil(t, m.database(), "there is no cluster yet")
	m.state.Database.Port = 5433
	require.Equal(t, map[string]string{"endpoints": "/var/run/postgresql:5433", "database": "concourse", "username": "concourse",
		"password": "hunter2"}, m.database())

	run := hosttest.NewRunner(t)
	run.On("runuser -u postgres -- psql", func(c host.Command) (string, error) {
		require.Contains(t, string(c.Stdin), "ALTER ROLE concourse LOGIN PASSWORD 'hunter2';")
		require.NotContains(t, c.String(), "hunter2")
		require.Contains(t, c.String(), "--port=5433 --dbname=postgres")
		return "", nil
	})
	m.Host.Runner = run
	require.NoError(t, m.apply(t.Context(), login{*m.state.Database}))
	require.Len(t, run.Ran, 1)
}

// The web identifies its workers by these names, so they fit a command line.
func TestUnitOfAMachineHasItsHostName(t *testing.T) {
	for host, want := range map[string]string{"ryzen": "ryzen/0", "CI-Box.example.org": "ci-box/0", "gpu_3": "gpu-3/0",
		"-a9z-": "a9z/0", "": "machine/0", "_._": "machine/0", "été": "t/0"} {
		require.Equal(t, want, unitName(host), host)
		require.Regexp(t, unitForm(), unitName(host))
	}
}

func TestStatusOfTheLastRunIsRecorded(t *testing.T) {
	m := machineOn(t, hosttest.Root(t)).Model
	var out strings.Builder
	m.Progress.W = &out
	require.NoError(t, m.StatusSet(t.Context(), juju.Maintenance, "installing"))
	require.NoError(t, m.StatusSet(t.Context(), juju.Blocked, "no disk"))
	require.Equal(t, "installing\n", out.String(), "the status follows at the end")
	require.False(t, m.Installed(), "a plan changes nothing")
	require.NoError(t, m.Save())
	require.NoError(t, m.StatusSet(t.Context(), juju.Waiting, "no web"))
	again, err := Load(m.Host)
	require.NoError(t, err)
	require.Equal(t, juju.Waiting, again.state.Status)
	require.Equal(t, "no web", again.state.Message)
}

// A person sees warnings. Plans are of interest only if asked for.
func TestRunShowsWarnings(t *testing.T) {
	for verbose, want := range map[bool][]string{false: {"warning", "error"}, true: {"debug", "info", "warning", "error"}} {
		var b strings.Builder
		m := Model{Progress: Progress{W: &b}, Verbose: verbose}
		for _, level := range []juju.Level{juju.Debug, juju.Info, juju.Warning, juju.Error} {
			require.NoError(t, m.Log(t.Context(), level, strings.ToLower(string(level))))
		}
		require.Equal(t, want, strings.Fields(b.String()))
	}
}

func TestKeyOfAWorkerIsShownOnceItHasOne(t *testing.T) {
	m := machineOn(t, hosttest.Root(t))
	m.Model.state.Unit = "ryzen/0"
	const none = "cannot show the key of this machine's worker: it has none yet"
	require.ErrorContains(t, m.PrintKey(), none)
	hosttest.Put(t, m.Model.Host.Root, concourse.WorkerKeyPublic, someKey+" root@ryzen\n")
	require.ErrorContains(t, m.WorkerKey(), none)
	hosttest.Put(t, m.Model.Host.Root, concourse.EnvFile, "CONCOURSE_TAG=\"a,b\"\nXCONCOURSE_NAME=x\n CONCOURSE_NAME=\"ryzen-0-4ebbcdcb\"\n")
	require.NoError(t, m.WorkerKey())
	require.NoError(t, m.PrintKey())
	line := "ryzen/0 ryzen-0-4ebbcdcb " + someKey
	out := m.Stdout.(*strings.Builder).String()
	require.Equal(t, line+"\nOn the web's machine run:\n\n  sudo concourse-ci-machine accept '"+line+"'\n", out)
	_, _, err := parseWorkerLine(line)
	require.NoError(t, err)
}

func TestStatusOfAStoppedCIHasTheNextCommand(t *testing.T) {
	m, runner := stoppable(t)
	require.NoError(t, m.Model.Save())
	m.Model.state.Down = true
	for state, want := range map[string]string{
		"active": "maintenance: the CI is being stopped: " + concourse.WebUnit + "; if no command does it now, run: sudo concourse-ci-machine down\n",
		"failed": "down: the CI is stopped; start it with: sudo concourse-ci-machine up\n",
	} {
		var out strings.Builder
		m.Stdout = &out
		runner.Answer("systemctl show", "Id="+concourse.WebUnit+"\nLoadState=loaded\nActiveState="+state+"\nUnitFileState=enabled\nSubState=running\n")
		require.ErrorIs(t, m.Show(t.Context()), ErrNotReady)
		require.Equal(t, want, out.String())
	}
}

// A user's own link stays.
func TestOnlyTheMachinesLinkToFlyIsRemoved(t *testing.T) {
	for to, want := range map[string]int{flyBin: 1, "/opt/fly": 0} {
		r := hosttest.Root(t)
		p, err := noFly{"x"}.Diff(t.Context(), host.Host{Root: r})
		require.NoError(t, err)
		require.Empty(t, p, "there is none")
		hosttest.Link(t, r, flyLink, to)
		p, err = noFly{"x"}.Diff(t.Context(), host.Host{Root: r})
		require.NoError(t, err)
		require.Len(t, p, want)
		_, err = p.Apply(t.Context(), nil)
		require.NoError(t, err)
		p, err = fly{}.Diff(t.Context(), host.Host{Root: r})
		require.NoError(t, err)
		require.Empty(t, p, "without a release there is no fly")
	}
}
