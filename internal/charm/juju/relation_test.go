package juju_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

func TestRelationsAreRead(t *testing.T) {
	both(t, hook, func(t *testing.T, m *jujutest.Model, _ *jujutest.Context, tools *juju.Tools) {
		ids, err := tools.RelationIDs(ctx, "db")
		require.NoError(t, err)
		require.Equal(t, []string{"db:7"}, ids)
		units, err := tools.RelationUnits(ctx, "db:7")
		require.NoError(t, err)
		require.Equal(t, []string{"db/0"}, units)
		app, err := tools.RelationRemoteApp(ctx, "db:7")
		require.NoError(t, err)
		require.Equal(t, "db", app)
		bag, err := tools.RelationGet(ctx, "db:7", "db/0")
		require.NoError(t, err)
		require.Equal(t, "10.0.0.9", bag["host"])
		bag, err = tools.RelationGetApp(ctx, "db:7", "db")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"version": "14"}, bag)
		n, err := tools.NetworkGet(ctx, "db")
		require.NoError(t, err)
		require.Equal(t, "10.0.0.5", n.Ingress())
		require.Equal(t, "10.0.0.5", n.Bind())
		require.Equal(t, []string{"10.0.0.5/32"}, n.EgressSubnets)
	})
}

// Every relation of an endpoint is used, not only the first.
func TestAllRelationsOfAnEndpointAreListed(t *testing.T) {
	both(t, func(m *jujutest.Model) *jujutest.Context {
		m.Relate(12, "db", "other")
		return hook(m)
	}, func(t *testing.T, _ *jujutest.Model, _ *jujutest.Context, tools *juju.Tools) {
		ids, err := tools.RelationIDs(ctx, "db")
		require.NoError(t, err)
		require.Equal(t, []string{"db:12", "db:7"}, ids)
	})
}

// tricky has values that YAML would not read as strings, or that a careless encoder would
// break.
var tricky = map[string]string{
	"plain": "v", "number": "0x10", "octal": "010", "bool": "yes", "null": "null", "tilde": "~", "date": "2026-01-02",
	"lines": "a\nb\n", "key": "-----BEGIN KEY-----\nabc=\n-----END KEY-----\n", "quotes": `"a" 'b' \n`, "tab": "\t x \r",
	"unicode": "größe 🦀 \u2028 \u0085", "control": "\x01\x7f", "spaces": "  both  ", "json": `{"a":[1,"b"]}`, "colon": "a: b # c",
	"odd key: 'x'": "v",
}

func TestRelationContentIsUnchangedAndNotInArguments(t *testing.T) {
	both(t, hook, func(t *testing.T, m *jujutest.Model, c *jujutest.Context, tools *juju.Tools) {
		require.NoError(t, tools.RelationSet(ctx, "db:7", tricky))
		require.NoError(t, tools.RelationSetApp(ctx, "db:7", map[string]string{"app": "s3cret"}))
		require.NoError(t, tools.RelationSet(ctx, "db:7", map[string]string{"ingress-address": ""}))
		require.NoError(t, tools.RelationSet(ctx, "db:7", nil))
		require.Equal(t, []string{"-r db:7 --file -", "-r db:7 --app --file -", "-r db:7 --file -"}, c.Called("relation-set"))
		own, err := tools.RelationGet(ctx, "db:7", "gpu/0")
		require.NoError(t, err)
		require.Equal(t, tricky, own)
		require.NoError(t, c.Commit())
		require.Equal(t, tricky, m.Relations[0].Local)
		require.Equal(t, map[string]string{"app": "s3cret"}, m.Relations[0].LocalApp)
	})
}

func FuzzRelationSetIsReadBackAsWritten(f *testing.F) {
	for k, v := range tricky {
		f.Add(k, v)
	}
	f.Add(strings.Repeat("k", 2000), "v")
	f.Fuzz(func(t *testing.T, k, v string) {
		k, v = strings.ToValidUTF8(k, "?"), strings.ToValidUTF8(v, "?")
		var got map[string]string
		require.NoError(t, yaml.Unmarshal(juju.YAMLMap(map[string]string{k: v}), &got))
		require.Equal(t, map[string]string{k: v}, got)
	})
}
