package hooks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// running is the version that release.Link names.
func (u *unit) running() string {
	u.t.Helper()
	version, _, ok := release.Installed(u.Root)
	require.True(u.t, ok)
	return version
}

// breaks makes a version end as soon as it is started.
func (u *unit) breaks(version, sub string) {
	u.Machine.Ends = func(unit string) string {
		if now, _, _ := release.Installed(u.Root); now == version && unit != "concourse-pebble.service" {
			return sub
		}
		return ""
	}
}

const (
	retire  = "systemctl kill --kill-whom=main --signal=SIGUSR2 concourse-worker.service"
	restart = "systemctl restart concourse-worker.service"
)

// upgraded attaches a release and asks for its version, as an operator does.
func (u *unit) upgraded(version string) sandbox.Result {
	u.t.Helper()
	u.Model.Resources["concourse-release"] = releaseTarball(version)
	u.set(options{"version": version})
	return u.hook("upgrade-charm")
}

// D16, D18: tasks get their time before the programs are replaced, and there is
// one start after it.
func TestD18UpgradeDrainsBeforeItSwitches(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	var then string
	u.Machine.OnUnit = func(name string, up bool) {
		if name == "concourse-worker.service" && !up {
			then, _, _ = release.Installed(u.Root)
		}
	}
	r := u.upgraded("8.2.6")
	require.Equal(t, []string{retire, restart}, r.Commands)
	require.Equal(t, "8.2.5", then, "it still had its own programs")
	require.Equal(t, "active: Worker ready (v8.2.6)", r.Status().Status+": "+r.Status().Message)
	idle(u, "again", func() sandbox.Result { return u.hook("update-status") })
	require.False(t, u.Root.Exists("/var/lib/concourse-ci-machine/failed-release.json"))
}

// D15: an attached release of another version than the web's is refused before
// anything is drained for it.
func TestD15WrongAttachedReleaseEndsNoTask(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	u.Model.Resources["concourse-release"] = releaseTarball("8.2.6")
	r := u.hook("upgrade-charm")
	require.Empty(t, r.Commands)
	require.Equal(t, "blocked: the release is Concourse 8.2.6, wanted is 8.2.5; more: juju run concourse-ci-machine/0 check-status",
		r.Status().Status+": "+r.Status().Message)
	require.True(t, u.Machine.Up("concourse-worker.service"))
	require.Empty(t, u.hook("update-status").Commands)
	require.Equal(t, "8.2.5", u.running())
}

// A release that ends when it is started is left in the same hook, and tried
// again only when there is a reason to.
func TestUpgradeThatEndsAtItsStartGoesBack(t *testing.T) {
	t.Parallel()
	for _, sub := range []string{"auto-restart", "failed"} {
		t.Run(sub, func(t *testing.T) {
			t.Parallel()
			u := worker(t, fixture("no-gpu"), nil)
			u.breaks("8.2.6", sub)
			r := u.upgraded("8.2.6")
			require.Equal(t, "8.2.5", u.running())
			require.True(t, u.Machine.Up("concourse-worker.service"))
			const remark = "Concourse 8.2.6 did not start"
			require.Contains(t, u.done("check-status", nil)["checks"], "warn    ready: "+remark+", and the previous release runs\n        it ended when it was started")
			for _, name := range []string{"update-status", "config-changed"} {
				idle(u, name, func() sandbox.Result { return u.hook(name) })
				require.Contains(t, u.Model.Status().Message, "; Concourse 8.2.6 did not")
			}
			require.Equal(t, "8.2.5", u.Model.Version)

			// Without force it is not tried again.
			u.done("restart-services", nil)
			require.Empty(t, u.hook("update-status").Commands)
			u.done("restart-services", map[string]any{"force": true})
			r = u.hook("update-status")
			require.Contains(t, r.Commands, retire)
			require.Equal(t, "8.2.5", u.running(), "it ends again")
			require.Contains(t, u.Model.Status().Message, "; Concourse 8.2.6 did not")

			u.Machine.Ends = nil
			u.done("restart-services", map[string]any{"force": true})
			r = u.hook("update-status")
			require.Equal(t, []string{retire, restart}, r.Commands)
			require.Equal(t, "active: Worker ready (v8.2.6)", r.Status().Status+": "+r.Status().Message)
			idle(u, "again", func() sandbox.Result { return u.hook("update-status") })
		})
	}
}

func TestOtherVersionForgetsTheOneThatFailed(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	u.breaks("8.2.6", "auto-restart")
	u.upgraded("8.2.6")
	u.Model.Resources["concourse-release"] = releaseTarball("8.2.5")
	u.set(options{"version": "8.2.5"})
	r := u.hook("upgrade-charm")
	require.Equal(t, "active: Worker ready (v8.2.5)", r.Status().Status+": "+r.Status().Message)
	require.False(t, u.Root.Exists("/var/lib/concourse-ci-machine/failed-release.json"))
	u.Machine.Ends = nil
	r = u.upgraded("8.2.6")
	require.Equal(t, "active: Worker ready (v8.2.6)", r.Status().Status+": "+r.Status().Message)
}

// If the release before does not start any more either, a hook goes back once and reports
// what is wrong, and hooks do not change releases in turn.
func TestMachineOnWhichNothingStartsIsNotSwitchedToAndFro(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	u.Machine.Ends = func(string) string { return "failed" }
	r := u.upgraded("8.2.6")
	require.Equal(t, "8.2.5", u.running())
	require.Equal(t, "waiting", r.Status().Status)
	require.Contains(t, r.Status().Message, "Worker not ready: ")
	require.Contains(t, r.Status().Message, "; and 1 more: ")
	u.Machine.Ends = nil
	r = u.hook("update-status")
	require.Equal(t, []string{"systemctl start concourse-worker.service"}, r.Commands)
	require.Contains(t, r.Status().Message, "Worker ready (v8.2.5)")
	require.Equal(t, "8.2.5", u.running())
}

// schema sets the version of the database, as a web that ran leaves it.
func (u *unit) schema(version string) {
	u.t.Helper()
	require.NoError(u.t, u.Root.WriteFile(sandbox.Schema, []byte(version+"\n"), 0o644))
	require.NoError(u.t, u.Root.Remove(sandbox.Schema+"-undone"))
}

// D15: what the database does not allow is refused, and nothing is changed.
func TestD15DowngradeOverAMigratedDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	c := webs(t, 1, nil)
	u := c.units[0]
	u.schema("825")
	r := u.upgraded("8.2.6")
	require.Equal(t, []string{"systemctl restart concourse-server.service"}, r.Commands, c.status(0))
	require.Equal(t, "active: Web server ready (v8.2.6) "+url(u), c.status(0))
	u.schema("826")
	c.idle()
	r = u.upgraded("8.2.5")
	require.Equal(t, "blocked: cannot go back to Concourse 8.2.5: 8.2.6 migrated the database; more: juju run ci/0 check-status", c.status(0))
	require.Empty(t, r.Commands)
	require.Equal(t, "8.2.6", u.running())
	require.Equal(t, webUp, c.up(0))
	res := u.done("run-migrations", map[string]any{"target-version": "825"})
	require.Equal(t, "825", res["after"])
	r = c.hook(0, "update-status")
	require.Equal(t, "active: Web server ready (v8.2.5) "+url(u), c.status(0))
	require.Equal(t, 1, starts(r.Commands), "%q", r.Commands)
	c.idle()
	r = u.upgraded("8.2.6") // its migration is undone, so 8.2.5 takes it for done
	require.Equal(t, "active: Web server ready (v8.2.6) "+url(u), c.status(0))
}

// A web goes back if its database still fits.
func TestWebThatEndsAtItsStartGoesBack(t *testing.T) {
	t.Parallel()
	c := webs(t, 1, nil)
	u := c.units[0]
	u.schema("825")
	u.breaks("8.2.6", "auto-restart")
	r := u.upgraded("8.2.6")
	require.Equal(t, "8.2.5", u.running())
	require.True(t, strings.HasPrefix(c.status(0), "active: Web server ready (v8.2.5)"), c.status(0))
	require.Equal(t, 2, starts(r.Commands), "%q", r.Commands)
	c.idle()
}
