package onemachine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func machineOn(t *testing.T, r host.Root) *Machine {
	t.Helper()
	m, err := Load(host.Host{Root: r, Clock: host.WallClock{}})
	require.NoError(t, err)
	var b strings.Builder
	return &Machine{Model: m, Stdout: &b}
}

// stoppable returns a machine of a whole CI with a record of the commands that change it.
func stoppable(t *testing.T) (*Machine, *hosttest.Runner) {
	t.Helper()
	r := hosttest.Root(t, hosttest.CharmDir(t))
	hosttest.Put(t, r, OptionsFile, "mode: all\n")
	runner := hosttest.NewRunner(t)
	runner.Answer("systemctl show", "Id="+timer+"\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\nSubState=waiting\n")
	for _, command := range []string{"systemctl disable", "systemctl stop", "systemctl daemon-reload", "systemctl reset-failed"} {
		runner.Answer(command, "")
	}
	m, err := New(&actions.Actions{Charm: &charm.Charm{Host: host.Host{Root: r, Runner: runner, Clock: hosttest.Clock{T: hosttest.Now}},
		CharmDir: hosttest.CharmDir(t), Stderr: io.Discard}}, Progress{W: io.Discard})
	require.NoError(t, err)
	return m, runner
}

// The operator stopped the CI. The timer completes a stop that was killed, and starts nothing.
func TestTimerLeavesAStoppedCIDown(t *testing.T) {
	m, runner := stoppable(t)
	require.NoError(t, m.Reconcile(t.Context()))
	require.Empty(t, runner.Ran, "before up there is nothing to repair")
	require.NoError(t, m.Model.Save())
	stops := []string{"systemctl stop " + timer, "systemctl disable " + timer}
	require.NoError(t, m.Down(t.Context()))
	require.Equal(t, stops, runner.Ran)
	runner.Ran = nil
	require.NoError(t, m.Reconcile(t.Context()))
	require.Equal(t, stops, runner.Ran, "the timer still runs")
	require.True(t, machineOn(t, m.Model.Host.Root).Model.state.Down)
	require.ErrorIs(t, m.Show(t.Context()), ErrNotReady)
}

func TestCommandsNeedAMachineThatIsSetUp(t *testing.T) {
	m, runner := stoppable(t)
	require.ErrorIs(t, m.Down(t.Context()), errNotUp)
	require.ErrorIs(t, m.Show(t.Context()), errNotUp)
	require.ErrorIs(t, m.Change(t.Context(), map[string]string{"tag": "a"}, nil), errNotUp)
	require.ErrorIs(t, m.Action(t.Context(), "check-status", nil), errNotUp)
	require.Empty(t, runner.Ran)
}

// The timer's run waits for a command, and must not write back what it read before.
func TestCommandThatWaitedSeesTheStateOfTheOneBefore(t *testing.T) {
	r := hosttest.Root(t)
	first := machineOn(t, r)
	require.NoError(t, first.Model.Save())
	late := machineOn(t, r)
	require.NoError(t, first.locked("accept", func() error {
		first.Model.state.Workers = map[string]map[string]string{"b/0": {workerKey: "k"}}
		return first.Model.Save()
	}))
	require.NoError(t, late.locked("repair", func() error {
		require.Contains(t, late.Model.state.Workers, "b/0")
		return late.Model.Save()
	}))
	require.Contains(t, machineOn(t, r).Model.state.Workers, "b/0")
}

func TestMachineOfJujuIsNotChanged(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/var/lib/juju/agents/unit-ci-0/agent.conf", "")
	err := machineOn(t, r).locked("stop the CI", func() error { t.Error("it was changed"); return nil })
	require.EqualError(t, err, "cannot stop the CI: Juju manages this machine (ci-0); use juju config and juju run, "+
		"or another machine")
}

func TestDamagedStateNamesAWayOut(t *testing.T) {
	r := hosttest.Root(t)
	for text, want := range map[string]string{"{": "it is damaged", "{}": "it is damaged",
		`{"format_version":2,"unit":"a/0"}`: "of a later version"} {
		hosttest.Put(t, r, stateFile.Path, text)
		_, err := Load(host.Host{Root: r})
		require.ErrorContains(t, err, stateFile.Path)
		require.ErrorContains(t, err, want)
	}
}

const someKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"

func TestLinesOfOtherMachinesAreChecked(t *testing.T) {
	unit, worker, err := parseWorkerLine("ryzen/0 ryzen-0-4ebbcdcb " + someKey + "\r")
	require.NoError(t, err)
	require.Equal(t, "ryzen/0", unit)
	require.Equal(t, map[string]string{workerKey: someKey, workerName: "ryzen-0-4ebbcdcb"}, worker)
	for _, line := range []string{"", "ryzen/0", "ryzen/0 " + someKey, "ryzen/1 w " + someKey, "../0 w " + someKey,
		"ryzen/0 w 'x " + someKey, "ryzen/0 w command=x " + someKey, "ryzen/0 w ssh-ed25519 AAAA"} {
		_, _, err := parseWorkerLine(line)
		require.ErrorContains(t, err, "copy the whole line", line)
	}
	m := machineOn(t, hosttest.Root(t))
	require.NoError(t, m.join("http://10.0.0.1:8080 10.0.0.1:2222 8.2.5 "+someKey+"\r\n"))
	require.Equal(t, map[string]string{webURL: "http://10.0.0.1:8080", tsaHost: "10.0.0.1:2222", tsaVersion: "8.2.5",
		tsaKey: someKey}, m.Model.state.Web)
	for _, line := range []string{"", "x", "http://10.0.0.1:8080 10.0.0.1:2222 8.2.5",
		"ftp://10.0.0.1 10.0.0.1:2222 8.2.5 " + someKey, "http://10.0.0.1:8080 10.0.0.1 8.2.5 " + someKey,
		"http://10.0.0.1:8080 10.0.0.1:2222 8.2.5 x", "http://10.0.0.1:8080 10.0.0.1:2222 new " + someKey,
		"http://evil.example:8080 10.0.0.1:2222 8.2.5 " + someKey, "http://u:p@10.0.0.1:8080 10.0.0.1:2222 8.2.5 " + someKey,
		"http://10.0.0.1:8080/x 10.0.0.1:2222 8.2.5 " + someKey, "http://10.0.0.1:8080?x 10.0.0.1:2222 8.2.5 " + someKey} {
		require.ErrorContains(t, m.join(line), "copy the whole line", line)
	}
}

// webOf starts a web that answers, and returns a machine of version 8.2.5 that joined it,
// with its progress.
func webOf(t *testing.T, answer string) (m *Machine, out *strings.Builder) {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, answer) }))
	t.Cleanup(web.Close)
	m, out = machineOn(t, hosttest.Root(t)), &strings.Builder{}
	m.Model.Progress.W = out
	m.Model.state.Web = map[string]string{webURL: web.URL, tsaVersion: "8.2.5"}
	return m, out
}

func installable(context.Context) error { return nil }

// The web's version comes over plain HTTP, so another machine of the network may answer.
func TestJoinedMachineFollowsOnlyNewerReleases(t *testing.T) {
	huge := `{"version":"8.2.6","x":"` + strings.Repeat("x", 1<<20) + `"}`
	for answer, want := range map[string]string{`{"version":"8.2.6"}`: "8.2.6", `{"version":"8.10.0"}`: "8.10.0",
		`{"version":"8.2.5"}`: "8.2.5", `{"version":"8.2.4"}`: "8.2.5", `{"version":"9.0.0"}`: "8.2.5",
		`{"version":"8.2.6/../x"}`: "8.2.5", `{"version":6}`: "8.2.5", "": "8.2.5", huge: "8.2.5"} {
		m, _ := webOf(t, answer)
		url := m.Model.state.Web[webURL]
		m.followWeb(t.Context(), installable)
		require.Equal(t, want, m.Model.state.Web[tsaVersion], "%.40s", answer)
		other := httptest.NewServer(http.RedirectHandler(url+"/api/v1/info", http.StatusFound))
		m.Model.state.Web = map[string]string{webURL: other.URL, tsaVersion: "8.2.5"}
		m.followWeb(t.Context(), installable)
		require.Equal(t, "8.2.5", m.Model.state.Web[tsaVersion], "a redirection is not followed")
		other.Close()
	}
}

// One forged answer must not end a worker.
func TestJoinedMachineFollowsOnlyReleasesThatCanBeInstalled(t *testing.T) {
	m, out := webOf(t, `{"version":"8.999.0"}`)
	blocked := m.followWeb(t.Context(), func(context.Context) error {
		require.Equal(t, "8.999.0", m.Model.state.Web[tsaVersion], "the release to check")
		return errors.New("it is not there")
	})
	require.Equal(t, "8.2.5", m.Model.state.Web[tsaVersion])
	require.Contains(t, out.String(), "The web has Concourse 8.999.0, and this machine stays at 8.2.5: it is not there; ")
	require.Equal(t, "a web of Concourse 8.999.0 gives no work to a worker of 8.2.5; run: "+
		"sudo concourse-ci-machine upgrade 8.999.0", blocked, "the web may have its own release")
}

// The operator types the printed command, when the web gets another major version and when
// it goes back.
func TestPrintedUpgradeFollowsTheWeb(t *testing.T) {
	for _, version := range []string{"9.0.0", "8.2.4", "8.2.5"} {
		m, out := webOf(t, `{"version":"`+version+`"}`)
		if version == "8.2.5" {
			m.Model.state.Web[tsaVersion] = "9.0.0"
		}
		own := m.Model.state.Web[tsaVersion]
		blocked := m.followWeb(t.Context(), installable)
		require.Contains(t, out.String(), "stays at "+own+"; to change that run: sudo concourse-ci-machine upgrade "+version)
		require.Equal(t, version == "8.2.4", blocked == "", "only another protocol matters")
		require.Equal(t, own, m.Model.state.Web[tsaVersion])
		out.Reset()
		m.Model.options = map[string]any{"version": version}
		require.Empty(t, m.followWeb(t.Context(), installable))
		require.Equal(t, version, m.Model.state.Web[tsaVersion], "the status compares it with the option")
		require.Empty(t, out.String())
	}
	m, out := webOf(t, `{"version":"8.3.0"}`)
	m.Model.options = map[string]any{"version": "8.2.5"}
	require.NotEmpty(t, m.followWeb(t.Context(), installable), "the operator's choice stays")
	require.Contains(t, out.String(), "this machine stays at 8.2.5; ")
	require.Equal(t, "8.2.5", m.Model.state.Web[tsaVersion])
}

func FuzzInvitation(f *testing.F) {
	f.Add("http://10.0.0.1:8080 10.0.0.1:2222 8.2.5 " + someKey)
	f.Add("http://[fd00::1]:8080 [fd00::1]:2222 8.2.5 " + someKey)
	f.Fuzz(func(t *testing.T, line string) {
		bag, problems := parseInvitation(line)
		if bag == nil {
			return
		}
		require.Empty(t, problems)
		require.NoError(t, release.CheckVersion(bag[tsaVersion]))
		u, err := url.Parse(bag[webURL])
		require.NoError(t, err)
		require.Empty(t, u.Path+u.RawQuery+u.Fragment)
	})
}

func FuzzWorkerLine(f *testing.F) {
	f.Add("ryzen/0 ryzen-0-4ebbcdcb " + someKey)
	f.Fuzz(func(t *testing.T, line string) {
		unit, worker, err := parseWorkerLine(line)
		if err == nil {
			require.NotContains(t, unit+worker[workerName]+worker[workerKey], "\n")
		}
	})
}

// Databags, secrets and the database are those that a hook would read from Juju.
func TestModelKeepsWhatJujuWould(t *testing.T) {
	ctx := t.Context()
	m := machineOn(t, hosttest.Root(t)).Model
	m.options = map[string]any{"mode": "all", "database-url": "postgresql://ci:p%40w@db:5433/ci?sslmode=require"}
	set, err := m.Config(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"mode": "all"}, set)
	ids, err := m.RelationIDs(ctx, "postgresql")
	require.NoError(t, err)
	require.Equal(t, []string{databaseID}, ids)
	bag, err := m.RelationGetApp(ctx, databaseID, "postgresql")
	require.NoError(t, err)
	require.Equal(t, "true", bag["tls"])

	require.NoError(t, m.RelationSet(ctx, peersID, map[string]string{"a": "1", "b": "2"}))
	require.NoError(t, m.RelationSet(ctx, peersID, map[string]string{"a": ""}))
	own, err := m.RelationGet(ctx, peersID, m.state.Unit)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"b": "2"}, own)

	_, err = m.SecretGet(ctx, "secret:none")
	require.ErrorIs(t, err, juju.ErrNotFound)
	id, err := m.SecretAdd(ctx, juju.Secret{Label: "web", Content: map[string]string{"k": "v"}})
	require.NoError(t, err)
	again, err := Load(m.Host)
	require.NoError(t, err)
	got, err := again.SecretGet(ctx, id)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"k": "v"}, got)
}
