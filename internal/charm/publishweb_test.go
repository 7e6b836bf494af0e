package charm

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// The web's ports are opened and previous ones are closed, each with one call.
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

func TestOnlyDifferencesArePublished(t *testing.T) {
	own := map[string]string{"same": "1", "other": "1", "gone": "1", "stays": "1"}
	want := map[string]string{"same": "1", "other": "2", "gone": "", "new": "1", "never": ""}
	require.Equal(t, map[string]string{"other": "2", "gone": "", "new": "1"},
		relation.Changes(own, want, slices.Collect(maps.Keys(want))))
}

// D33: only the predecessor's secrets in clear are removed.
func TestD33KeysOfThePredecessorAreRemoved(t *testing.T) {
	require.Equal(t, map[string]string{"admin-password": "", "vault-role-secret-id": "", "vault-url": "", "upgrade-state": "", "worker-ready-count": ""},
		predecessorKeys(map[string]string{"admin-password": "x", "vault-role-secret-id": "x", "vault-url": "x", "upgrade-state": "idle", "worker-ready-count": "0",
			"web-secret": "secret:x", "tsa-host": "10.0.0.2:2222", "somebody-elses": "1"}))
}

// With mode=auto a worker also publishes its GPUs to the peers. When it leads and becomes the
// web, it withdraws them there and in flight.
func TestPeersHaveAWorkersGPUsUntilItIsTheWeb(t *testing.T) {
	m := jujutest.New("ci/1")
	peer, flight := m.Relate(1, "peers", "ci"), m.Relate(7, "flight", "other")
	r := hosttest.Root(t)
	hosttest.Put(t, r, concourse.WorkerKeyPublic, roletest.TSAKey+"\n")
	gpus := relation.WorkerGPUs{Runtime: "rocm", Count: 2, Archs: []relation.ArchCount{{Arch: "gfx1100", GPUs: 2}}}
	run := func(do func(c *Charm, f model.Facts) error, role model.Role) {
		t.Helper()
		ctx := m.Begin(jujutest.Hook("update-status"))
		f := model.Facts{Unit: "ci/1", Role: role, Config: map[string]any{"mode": "auto"}, Peer: &model.Relation{ID: "peers:1", Own: peer.Local}, Flights: []model.Relation{{ID: "flight:7", Own: flight.Local}}}
		require.NoError(t, do(charmOf(t, r, m, ctx, nil), f))
		require.NoError(t, ctx.Commit())
	}
	run(func(c *Charm, f model.Facts) error {
		return c.publishWorkerKey(t.Context(), f, Desired{Worker: worker.Worker{GPUs: gpus}})
	}, model.WorkerRole)
	for _, bag := range []map[string]string{peer.Local, flight.Local} {
		got, problems := relation.ParseWorkerGPUs(bag)
		require.Empty(t, problems)
		require.Equal(t, gpus, got)
	}
	run(func(c *Charm, f model.Facts) error { return c.retract(t.Context(), f) }, model.WebRole)
	for _, bag := range []map[string]string{peer.Local, flight.Local} {
		for key := range gpus.Databag() {
			require.NotContains(t, bag, key)
		}
	}
	require.Contains(t, peer.Local, "worker-public-key", "another leader is to let this unit in")
	require.NotContains(t, flight.Local, "worker-public-key")
}
