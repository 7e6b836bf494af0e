package hooks

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// schedulers answer as webs on one database, and remember whether builds are held.
type schedulers struct {
	mu    sync.Mutex
	held  bool
	holds int
}

func (s *schedulers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/api/v1/components/scheduler/pause":
		s.held, s.holds = true, s.holds+1
	case "/api/v1/components/scheduler/unpause":
		s.held = false
	}
	fmt.Fprintln(w, sandbox.WebAnswer(r.URL.Path))
}

// overTheBorder is a web of 8.2.5 with a worker of it, before its hook takes 8.3.0.
func overTheBorder(t *testing.T) (*unit, *schedulers) {
	t.Helper()
	u, s := peered(t, options{"mode": "web"}).databased(), &schedulers{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	u.set(options{"web-port": server.Listener.Addr().(*net.TCPAddr).Port})
	u.Model.Relate(10, "tsa", "gpu").Units = map[string]map[string]string{"gpu/0": {"worker-public-key": tsaKey,
		"ingress-address": "10.0.1.10", "worker-version": "8.2.5"}}
	u.hook("install")
	u.schema("825")
	u.Model.Resources["concourse-release"] = releaseTarball("8.3.0")
	u.set(options{"version": "8.3.0"})
	return u, s
}

// An upgrade over the border of protocols that is killed anywhere holds builds until the
// worker has followed, and not longer.
func TestHoldOfBuildsKilledAnywhereEnds(t *testing.T) {
	t.Parallel()
	steps := 0
	for killed := true; killed; steps++ {
		u, s := overTheBorder(t)
		u.arm(killers[0], steps+1)
		r, err := u.Hook("upgrade-charm")
		u.Kill = nil
		require.NoError(t, err)
		if killed = r.Code != 0; killed {
			u.hook("upgrade-charm")
		}
		require.Equal(t, "8.3.0", u.running())
		require.True(t, s.held, "killed before step %d", steps+1)
		require.True(t, u.Root.Exists(web.HoldFile))
		require.NotEmpty(t, relationOf(u, "peers").LocalApp[web.HoldKey])
		require.Contains(t, u.hook("update-status").Status().Message, " for workers that do not run 8.3.0: 1")

		relationOf(u, "tsa").Units["gpu/0"]["worker-version"] = "8.3.0"
		r, err = u.RelationHook(relationOf(u, "tsa"), "changed", "gpu/0")
		u.fine("the worker follows", r, err)
		require.False(t, s.held, "killed before step %d", steps+1)
		require.False(t, u.Root.Exists(web.HoldFile))
		require.Empty(t, relationOf(u, "peers").LocalApp[web.HoldKey])
		require.Empty(t, u.hook("update-status").Plan())
	}
	require.Greater(t, steps, 4)
}

// The machine of the web that held builds is lost: the unit that leads then lets them start.
func TestHoldOfBuildsOfALostWebEnds(t *testing.T) {
	t.Parallel()
	u, s := overTheBorder(t)
	u.hook("upgrade-charm")
	require.True(t, s.held)
	require.NoError(t, u.Root.Remove(web.HoldFile)) // as on another machine
	relationOf(u, "tsa").Units["gpu/0"]["worker-version"] = "8.3.0"
	u.hook("leader-elected")
	require.False(t, s.held)
	require.Empty(t, relationOf(u, "peers").LocalApp[web.HoldKey])
}

// The way back over the border: builds are held from run-migrations until the worker has
// followed.
func TestWayBackOverTheBorderHoldsBuilds(t *testing.T) {
	t.Parallel()
	u, s := overTheBorder(t)
	follows := func(version string) {
		relationOf(u, "tsa").Units["gpu/0"]["worker-version"] = version
		r, err := u.RelationHook(relationOf(u, "tsa"), "changed", "gpu/0")
		u.fine("the worker follows", r, err)
	}
	u.hook("upgrade-charm")
	u.schema("830")
	follows("8.3.0")
	require.False(t, s.held)

	u.Model.Resources["concourse-release"] = releaseTarball("8.2.5")
	u.set(options{"version": "8.2.5"})
	r := u.hook("upgrade-charm")
	require.Contains(t, r.Status().Message, "cannot go back to Concourse 8.2.5: 8.3.0 migrated the database")
	require.Contains(t, u.refused("check-status", nil), "run-migrations target-version=825")
	require.Equal(t, "8.3.0", u.running())
	require.False(t, s.held)
	u.done("run-migrations", map[string]any{"target-version": "825"})
	require.True(t, s.held)
	require.False(t, u.Machine.Up("concourse-server.service"))
	u.hook("update-status")
	require.Equal(t, "8.2.5", u.running())
	require.Contains(t, u.hook("update-status").Status().Message, " for workers that do not run 8.2.5: 1")
	require.True(t, s.held)
	follows("8.2.5")
	require.False(t, s.held)
	require.Empty(t, u.hook("update-status").Plan())
}

// A migration that fails leaves the web as it was, and builds start again.
func TestMigrationThatFailsHoldsNoBuilds(t *testing.T) {
	t.Parallel()
	u, s := overTheBorder(t)
	u.hook("upgrade-charm")
	relationOf(u, "tsa").Units["gpu/0"]["worker-version"] = "8.3.0"
	u.hook("update-status")
	s.holds = 0
	u.schema("831")
	require.Contains(t, u.refused("run-migrations", map[string]any{"target-version": "825"}), "use the release that made it")
	require.Zero(t, s.holds, "what can't be is refused at once")
	u.schema("830")
	_, id, _ := release.Installed(u.Root)
	program := release.Dir + "/" + id + "/bin/concourse"
	text := strings.Replace(u.read(program), "rm -f", "echo deadlock detected >&2; exit 1;", 1)
	require.NoError(t, u.Root.WriteFile(program, []byte(text), 0o755))
	require.Contains(t, u.refused("run-migrations", map[string]any{"target-version": "825"}), "deadlock detected")
	require.Equal(t, 1, s.holds)
	require.False(t, s.held)
	require.False(t, u.Root.Exists(web.HoldFile))
	require.True(t, u.Machine.Up("concourse-server.service"))
}
