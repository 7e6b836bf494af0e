package model

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// related returns a unit with two relations of every endpoint that can be removed.
func related(mode string) *jujutest.Model {
	m := jujutest.New("ci/0")
	m.Config = map[string]any{"mode": mode}
	m.Relate(1, peers, "ci")
	for i, endpoint := range []string{flight, tsa, postgresql, vaultKV, certificates, monitoring, cosAgent, tracing,
		haproxyRoute, fleetRoute, ldap, catalogue, receiveCACerts} {
		for k := range 2 {
			r := m.Relate(10+2*i+k, endpoint, endpoint)
			r.AppData["version"] = "14"
			r.Units[endpoint+"/0"] = map[string]string{"ingress-address": "10.0.0.9"}
		}
	}
	return m
}

// ofWebs lists the endpoints that a worker does not read.
var ofWebs = []string{postgresql, vaultKV, certificates, ldap, catalogue}

func factsOf(t *testing.T, m *jujutest.Model, last Facts) Facts {
	t.Helper()
	ctx := m.Begin(jujutest.Hook("config-changed"))
	f, err := Observe(t.Context(), juju.New(ctx.Runner(nil)), ctx.Event, last, true, hosttest.Now)
	require.NoError(t, err)
	require.NoError(t, ctx.Commit())
	return f
}

// Juju lists a relation that was removed with --force until the unit's agent restarts, and
// refuses all its databags.
func TestRelationRemovedByForceIsAsIfItWereNotListed(t *testing.T) {
	for _, mode := range []string{"web", "worker", "all"} {
		for k, r := range related(mode).Relations[1:] {
			t.Run(mode+" "+r.Name(), func(t *testing.T) {
				without, forced := related(mode), related(mode)
				without.Relations = slices.Delete(without.Relations, k+1, k+2)
				forced.Relations[k+1].Forced = true
				want, got := factsOf(t, without, Facts{}), factsOf(t, forced, Facts{})
				if mode == "worker" && slices.Contains(ofWebs, r.Endpoint) {
					require.Empty(t, got.Forced)
				} else {
					require.Equal(t, []string{r.Name()}, got.Forced)
				}
				want.Forced = got.Forced
				require.Equal(t, want, got)
			})
		}
	}
}

func TestWorkerOfARelationRemovedByForceKeepsItsKeyWhileItDrains(t *testing.T) {
	m := jujutest.New("ci/0")
	m.Config = map[string]any{"mode": "web"}
	gone, stays := m.Relate(15, tsa, "gpu"), m.Relate(16, tsa, "cpu")
	for unit, r := range map[string]*jujutest.Relation{"gpu/0": gone, "cpu/0": stays} {
		_, key := hosttest.Key(unit)
		r.Units[unit] = map[string]string{"worker-public-key": key, "drain-timeout": "1h0m0s"}
	}
	before := factsOf(t, m, Facts{})
	require.Len(t, before.Web.Workers, 2)
	gone.Forced = true
	after := factsOf(t, m, before)
	require.Equal(t, []string{"tsa:16 cpu/0"}, slices.Collect(maps.Keys(after.Web.Workers)))
	require.Len(t, after.Web.Departed, 1)
	require.Equal(t, "gpu/0", after.Web.Departed[0].Unit)
	require.True(t, after.Web.Departed[0].MayDrain(hosttest.Now))
}
