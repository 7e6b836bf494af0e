package hooks

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// releaseFiles are this charm's releases, with owners, and what leads to them.
func (u *unit) releaseFiles() map[string]string {
	u.t.Helper()
	files := tree(u, "/var/lib/concourse/releases", "/opt/concourse-ci-machine")
	for path := range files {
		st, err := os.Lstat(u.Root.Path(path))
		require.NoError(u.t, err)
		files[path] += fmt.Sprintf(" of %d", st.Sys().(*syscall.Stat_t).Uid)
	}
	return files
}

// A unit goes to this charm, back to the Python charm, and here again: nothing of
// this charm's release is changed on the way, the worker knows the web's key all
// the while, and what was started with the Python charm's settings is restarted.
func TestUnitGoesThereAndBackAndThereAgain(t *testing.T) {
	for _, name := range []string{"worker", "rocm", "web"} {
		t.Run(name, func(t *testing.T) {
			var u *unit
			service, env, unitFile := workerUnit, "/var/lib/concourse-worker/worker-config.env", "/etc/systemd/system/"+workerUnit
			if name == "web" {
				_, u, _ = oldWeb(t)
				service, env, unitFile = webUnit, "/var/lib/concourse/config.env", "/etc/systemd/system/"+webUnit
			} else {
				u = oldUnit(t, name, workerUnit, options{"mode": "worker", "amd-container-toolkit": "skip"})
				u.web()
			}
			u.hook("upgrade-charm")
			ours, release := u.read(env), u.releaseFiles()
			unit := u.read(unitFile)
			require.Empty(t, u.hook("update-status").Plan())

			password := ""
			if name == "web" {
				password = "Made!onTheWayBack"
			}
			u.pythonHooks(hosttest.Predecessor(t, name), password)
			require.Empty(t, differences(release, u.releaseFiles()), "the Python charm can't reach it")
			require.NotEqual(t, ours, u.read(env))
			if name != "web" {
				require.Equal(t, tsaKey+"\n", u.read("/var/lib/concourse-worker/keys/tsa_host_key.pub"), "the web that the worker registers at")
			} else {
				for _, key := range []string{"tsa_host_key", "session_signing_key"} {
					require.Equal(t, oldKey("/var/lib/concourse/keys/"+key), u.read("/var/lib/concourse/keys/"+key))
				}
			}

			u.Machine.Recorded()
			did := u.hook("upgrade-charm")
			commands := strings.Join(did.Commands, "\n")
			require.Contains(t, commands, "systemctl daemon-reload")
			require.Contains(t, commands, "systemctl restart "+service, "it runs with what the Python charm wrote")
			require.Regexp(t, `^active: .* ready \(v8\.2\.5\)`, u.Model.Status().Status+": "+u.Model.Status().Message)
			require.Equal(t, unit, u.read(unitFile))
			require.Empty(t, differences(release, u.releaseFiles()))
			require.False(t, u.Root.Exists("/opt/bin"))
			if name == "web" {
				require.Equal(t, strings.ReplaceAll(ours, "Adm!nPassw0rd", password), u.read(env))
				require.Equal(t, password, u.action("get-admin-password", nil).Results["password"], "what the running web takes")
				require.NotContains(t, relationOf(u, "peers").LocalApp, "admin-password")
			} else {
				require.Equal(t, ours, u.read(env))
			}
			require.Empty(t, u.hook("update-status").Plan())
		})
	}
}

func TestTakeoverKilledAnywhereConverges(t *testing.T) {
	t.Parallel()
	worker := func(t *testing.T) *unit {
		u := oldUnit(t, "worker", workerUnit, options{"mode": "worker"})
		u.web()
		return u
	}
	web := func(t *testing.T) *unit {
		u := oldUnit(t, "web", webUnit, options{"mode": "web"})
		u.answered()
		u.Model.Leader = true
		u.Model.Relate(1, "peers", u.Model.App()).LocalApp = map[string]string{"admin-password": "Adm!nPassw0rd"}
		return u.databased()
	}
	again := func(from func(*testing.T) *unit, name, password string) func(*testing.T) *unit {
		return func(t *testing.T) *unit {
			u := from(t)
			u.hook("upgrade-charm")
			u.pythonHooks(hosttest.Predecessor(t, name), password)
			return u
		}
	}
	upgrade := func(u *unit) (sandbox.Result, error) { return u.Hook("upgrade-charm") }
	killedAnywhere(t, []killCase{
		{"worker", worker, nil, upgrade, 20},
		{"web", web, nil, upgrade, 20},
		{"worker again", again(worker, "worker", ""), nil, upgrade, 10},
		{"web again", again(web, "web", "Made!onTheWayBack"), nil, upgrade, 5},
	})
}
