package charm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// The leader publishes the supported version. Every unit reads the certificates, from an
// older provider in the databags of its units.
func TestAuthoritiesAreRequestedOncePerRelation(t *testing.T) {
	m := jujutest.New("worker/0")
	m.Config = map[string]any{"mode": "worker", "compute-runtime": "none"}
	newer, older := m.Relate(10, "receive-ca-certs", "ca"), m.Relate(11, "receive-ca-certs", "vault")
	newer.AppData = map[string]string{"certificates": "[]", "version": "1"}
	newer.Units = map[string]map[string]string{"ca/0": {"ca": "stale"}}
	older.Units = map[string]map[string]string{"vault/0": {"ca": "x"}, "vault/1": {"ca": "y"}}
	ask := func(e juju.Event) (model.Facts, *jujutest.Context) {
		ctx := m.Begin(e)
		c := charmOf(t, hosttest.Root(t), m, ctx, nil)
		facts, err := model.Observe(t.Context(), c.Tools, c.Event, model.Facts{Unit: m.Unit}, true, hosttest.Now)
		require.NoError(t, err)
		require.NoError(t, c.requestAuthorities(t.Context(), facts))
		require.NoError(t, ctx.Commit())
		return facts, ctx
	}
	m.Leader = false
	facts, _ := ask(update)
	require.Len(t, facts.Authorities.Relations, 2)
	require.Nil(t, facts.Authorities.Relations[0].Units, "what an older answer left counts no more")
	require.Len(t, facts.Authorities.Relations[1].Units, 2)
	require.Empty(t, newer.LocalApp)
	m.Leader = true
	ask(update)
	for _, r := range []*jujutest.Relation{newer, older} {
		require.Equal(t, map[string]string{"version": "1"}, r.LocalApp)
	}
	_, ctx := ask(update)
	require.Empty(t, ctx.Called("relation-set"), "nothing is new")
	facts, _ = ask(jujutest.RelationHook(older, "departed", "vault/1"))
	require.Len(t, facts.Authorities.Relations[1].Units, 1)
	facts, _ = ask(jujutest.RelationHook(newer, "broken", ""))
	require.Len(t, facts.Authorities.Relations, 1)
}
