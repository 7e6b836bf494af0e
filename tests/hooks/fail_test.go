package hooks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// fails runs a hook that must exit 1.
func (u *unit) fails(r sandbox.Result, err error) sandbox.Result {
	u.t.Helper()
	require.NoError(u.t, err)
	require.Equal(u.t, 1, r.Code, r.Output)
	return r
}

// D1: what no one foresaw ends the hook, so that Juju runs it again.
func TestD1UnexpectedFailureIsAnErrorAndNothingIsPublished(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("amd"), nil)
	u.giveKey()
	u.hook("install")
	flight := u.web()
	u.Machine.Fail = func(line string) string {
		if strings.HasPrefix(line, "systemctl start") {
			return "Failed to start concourse-worker.service: Unit concourse-worker.service is masked."
		}
		return ""
	}
	r := u.fails(u.RelationHook(flight, "changed", "web/0"))
	for _, want := range []string{`cannot run "systemctl start concourse-worker.service"`, "is masked", "cannot start concourse-worker.service"} {
		require.Contains(t, r.Output, want)
	}
	require.NotContains(t, flight.Local, "worker-public-key")

	u.Machine.Fail = nil
	r = u.flight("changed", "web/0")
	require.Equal(t, jujutest.StatusLine{Status: "active", Message: "Worker ready (v8.2.5)"}, r.Status())
	require.NotEmpty(t, flight.Local["worker-public-key"])
}

// D20: a key is published in every hook until it is.
func TestD20KeyIsPublishedByWhateverHookComesNext(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("amd"), nil)
	u.giveKey()
	flight := u.web()
	u.Model.Resources["concourse-release"] = filepath.Join(charmDir(), "dispatch") // no release at all
	r := u.flight("changed", "web/0")
	require.Equal(t, "blocked", r.Status().Status)
	require.Contains(t, r.Status().Message, "cannot unpack dispatch; ")
	require.NotContains(t, flight.Local, "worker-public-key")

	u.Model.Resources["concourse-release"] = releaseTarball("8.2.5")
	r = u.hook("update-status")
	require.Equal(t, "active", r.Status().Status)
	require.NotEmpty(t, flight.Local["worker-public-key"])
}

func TestUnwritablePlaceIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ path, want string }{
		"a file where a directory has to be": {"/var/lib/concourse/worker", "cannot use /var/lib/concourse/worker as a directory: a file has that name; move it away"},
		"a file above a file":                {"/etc/systemd/system", "/etc/systemd/system/concourse-server.service"},
		"a file where the charm keeps notes": {"/var/lib/concourse-ci-machine", "/var/lib/concourse-ci-machine"},
		"a file where the lock has to be":    {"/run/concourse-ci-machine", "cannot lock /run/concourse-ci-machine/locks/hook"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUnit(t, fixture("amd"), nil)
			u.giveKey()
			require.NoError(t, u.Root.WriteFile(tt.path, []byte("in the way\n"), 0o644))
			r := u.fails(u.Hook("install"))
			require.Contains(t, r.Output, tt.want)
			require.NoError(t, os.Remove(u.Root.Path(tt.path)))
			require.Contains(t, u.hook("install").Status().Message, "Waiting for a web")
		})
	}
}

// D1: the network's failures are counted, shown, and healed by themselves.
func TestD1RequiredToolkitIsWaitedForAndGivenUpInTheEnd(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("amd"), options{"compute-runtime": "rocm", "amd-container-toolkit": "required"})
	u.web()
	for _, want := range []string{"waiting (attempt 1)", "waiting (attempt 2)", "waiting (attempt 3)", "waiting (attempt 4)",
		"blocked (attempt 5)", "blocked (attempt 6)"} {
		r := u.hook("update-status")
		kind, count, _ := strings.Cut(want, " ")
		require.Equal(t, kind, r.Status().Status, want)
		require.Contains(t, r.Status().Message, "cannot fetch apt key /etc/apt/keyrings/concourse-ci-amd.gpg (att", want)
		require.Contains(t, u.refused("check-status", nil), "concourse-ci-amd.gpg "+count+": ", want)
	}
	require.Contains(t, u.refused("check-status", nil), "concourse-ci-amd.gpg (attempt 6): ", "no plan has the error")
	u.set(options{"amd-container-toolkit": "skip"})
	r := u.hook("config-changed")
	require.Equal(t, "active", r.Status().Status, r.Status().Message)
	require.NotContains(t, u.action("check-status", nil).Results["checks"], "attempt")
	u.set(options{"amd-container-toolkit": "required"})
	u.hook("config-changed")
	require.Contains(t, u.refused("check-status", nil), "(attempt 1)", "the count starts again")
}

func TestWrongOptionsAreNamedAllAtOnce(t *testing.T) {
	t.Parallel()
	u := newUnit(t, fixture("amd"), options{"compute-runtime": "rcom", "log-level": "loud", "mode": "both"})
	r := u.hook("install")
	require.Equal(t, jujutest.StatusLine{Status: "blocked", Message: `mode: "both" is not one of auto, all, web, worker; ` +
		`and 2 more: juju run concourse-ci-machine/0 check-status`}, r.Status())
	require.Contains(t, u.refused("check-status", nil), `options: mode: "both" is not one of auto, all, web, worker; `+
		`options: log-level: "loud" is not one of debug, info, warn, error, fatal; options: compute-runtime: "rcom" is not one of none, auto, `)
	require.Empty(t, r.Plan())
	require.Empty(t, r.Commands)
	require.False(t, u.Root.Exists("/var/lib/concourse"))
}

// A unit with a wrong option can be removed all the same.
func TestWrongOptionsDoNotKeepAUnitFromGoing(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("amd"), nil)
	u.set(options{"log-level": "loud"})
	u.hook("stop")
	require.False(t, u.Machine.Up("concourse-worker.service"))
	u.hook("remove")
	require.False(t, u.Root.Exists("/etc/systemd/system/concourse-server.service"))
}

// People may start dispatch while Juju does.
func TestTwoAtOnceWorkOneAfterTheOther(t *testing.T) {
	t.Parallel()
	u := processUnit(t, fixture("amd"), nil)
	u.giveKey()
	ctx := u.Model.Begin(jujutest.Hook("install"))
	socket := filepath.Join(u.Dir, "both.sock")
	server, err := jujutest.Serve(socket, func() *jujutest.Context { return ctx })
	require.NoError(t, err)
	defer server.Close()
	// Each call of a hook tool leaves the number of the process that made it.
	log := filepath.Join(u.Dir, "log")
	for _, tool := range []string{"config-get", "status-set", "juju-log"} {
		path := filepath.Join(u.Dir, "tools", tool)
		require.NoError(t, os.MkdirAll(filepath.Join(u.Dir, "real"), 0o755))
		real := filepath.Join(u.Dir, "real", tool)
		require.NoError(t, os.Rename(path, real))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho $PPID "+tool+" >>"+log+"\nexec "+real+" \"$@\"\n"), 0o755))
	}
	var both []*exec.Cmd
	for range 2 {
		c := u.Command(ctx)
		c.Env = append(c.Env, "JUJU_AGENT_SOCKET_ADDRESS="+socket)
		require.NoError(t, c.Start())
		both = append(both, c)
	}
	for _, c := range both {
		require.NoError(t, c.Wait())
	}
	require.NoError(t, ctx.Commit())
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	var turns, plans []string
	for line := range strings.Lines(string(text)) {
		pid, tool, _ := strings.Cut(strings.TrimSpace(line), " ")
		if len(turns) == 0 || turns[len(turns)-1] != pid {
			turns = append(turns, pid)
		}
		if tool == "juju-log" {
			plans = append(plans, pid)
		}
	}
	require.Len(t, turns, 2, "%s", text)
	require.NotEqual(t, turns[0], turns[1])
	require.Equal(t, turns[:1], plans, "the second has nothing to do")
}
