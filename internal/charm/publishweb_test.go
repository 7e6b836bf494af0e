package charm

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/juju"
	"concourse-ci-machine/internal/juju/jujutest"
	"concourse-ci-machine/internal/relation"
)

// The web's ports are open, those of before are closed, and nothing is asked for
// twice.
func TestPortsFollowTheWeb(t *testing.T) {
	m := jujutest.New("ci/0")
	publish := func(ports ...juju.Port) []string {
		ctx := m.Begin(jujutest.Hook("config-changed"))
		c := charmOf(t, hosttest.Root(t), m, ctx, nil)
		require.NoError(t, c.publishPorts(t.Context(), ports))
		require.NoError(t, ctx.Commit())
		return append(ctx.Called("open-port"), ctx.Called("close-port")...)
	}
	require.Len(t, publish(juju.TCP(8080)), 1)
	require.Empty(t, publish(juju.TCP(8080)))
	require.Len(t, publish(juju.TCP(80), juju.TCP(443)), 3, "two are opened, one is closed")
	require.Len(t, m.Ports, 2)
	require.Len(t, publish(), 2)
	require.Empty(t, m.Ports)
}

func TestDifferencesAreWhatChanged(t *testing.T) {
	own := map[string]string{"same": "1", "other": "1", "gone": "1", "stays": "1"}
	want := map[string]string{"same": "1", "other": "2", "gone": "", "new": "1", "never": ""}
	require.Equal(t, map[string]string{"other": "2", "gone": "", "new": "1"},
		relation.Changes(own, want, slices.Collect(maps.Keys(want))))
}

// D33: what the predecessor kept in clear, and nothing else.
func TestD33ScrubbedAreThePredecessorsKeys(t *testing.T) {
	require.Equal(t, map[string]string{"admin-password": "", "vault-role-secret-id": "", "vault-url": "", "upgrade-state": "", "worker-ready-count": ""},
		scrubbed(map[string]string{"admin-password": "x", "vault-role-secret-id": "x", "vault-url": "x", "upgrade-state": "idle", "worker-ready-count": "0",
			"web-secret": "secret:x", "tsa-host": "10.0.0.2:2222", "somebody-elses": "1"}))
}
