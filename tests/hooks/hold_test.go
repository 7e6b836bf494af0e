package hooks

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/testutil/sandbox"
)

// schedulers answer as webs on one database, and remember whether builds are held.
type schedulers struct {
	mu   sync.Mutex
	held bool
}

func (s *schedulers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/api/v1/components/scheduler/pause":
		s.held = true
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
		require.Contains(t, u.hook("update-status").Status().Message, "workers that do not run 8.3.0 yet get no work from it: gpu/0; builds are held until ")

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
