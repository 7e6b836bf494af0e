package juju

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	agent "github.com/juju/juju/concourseagent"
	"github.com/stretchr/testify/require"
)

// run runs shell commands on a unit with Juju's own hook tools.
func run(t *testing.T, u *agent.Unit, commands string) string {
	t.Helper()
	stdout, stderr, code, err := u.Exec(-1, "", commands)
	require.NoError(t, err)
	require.Zero(t, code, stderr)
	return strings.TrimSpace(stdout)
}

// sibling adds a unit beside the one of caseUnit, which does not lead.
func sibling(t *testing.T, m *agent.Model, first *agent.Unit) *agent.Unit {
	t.Helper()
	dir := shortDir(t)
	charm := agent.CharmDir(dir, "gpu/1")
	require.NoError(t, os.MkdirAll(filepath.Dir(charm), 0o755))
	require.NoError(t, os.CopyFS(charm, os.DirFS(first.CharmDir())))
	u, err := m.AddUnit("gpu/1", "10.0.0.6", dir, jujuc())
	require.NoError(t, err)
	u.Installed()
	first.Installed()
	return u
}

func ran(u *agent.Unit) (names []string) {
	for _, r := range u.Settle() {
		names = append(names, r.Hook)
	}
	return names
}

// What internal/charm/model relies on when it peeks at secrets: SecretsManagerAPI's
// getConsumedRevision makes whoever reads a secret for the first time a consumer
// at the newest revision, with --peek too; and every consumer hears of a new
// revision, units of the owning application as well, whichever revision they
// track. A first peek so would do; a later one moves nothing.
func TestWhoReadsASecretHearsOfItsChanges(t *testing.T) {
	for name, first := range map[string]string{"get": "secret-get", "peek": "secret-get --peek", "refresh": "secret-get --refresh"} {
		t.Run("a consumer that begins with "+name, func(t *testing.T) {
			t.Parallel()
			m, u, db := caseUnit(t, true)
			s := m.AddSecret("db", map[string]string{"token": "one"})
			_, stderr, code, err := u.Exec(-1, "", first+" "+m.URI(s))
			require.NoError(t, err)
			require.Equal(t, 1, code)
			require.Equal(t, "ERROR permission denied\n", stderr, "not granted")
			m.Grant(s, db, "gpu")
			require.Zero(t, m.Tracked(s, "gpu/0"))
			m.Update(s, map[string]string{"token": "two"})
			require.Empty(t, ran(u), "who has not read it hears nothing")
			require.Equal(t, "token: two", run(t, u, first+" "+m.URI(s)))
			require.Equal(t, 2, m.Tracked(s, "gpu/0"))
			require.Equal(t, []string{"secret-changed"}, ran(u), "of the revision that it has read already")
			m.Update(s, map[string]string{"token": "three"})
			require.Equal(t, "token: three", run(t, u, "secret-get --peek "+m.URI(s)))
			require.Equal(t, "token: two", run(t, u, "secret-get "+m.URI(s)))
			require.Equal(t, []string{"secret-changed"}, ran(u))
			require.Equal(t, 2, m.Tracked(s, "gpu/0"), "the hook moves nothing by itself")
			require.Equal(t, "token: three", run(t, u, "secret-get --refresh "+m.URI(s)))
			require.Equal(t, 3, m.Tracked(s, "gpu/0"))
			require.Empty(t, ran(u))
		})
	}
	t.Run("units of the owning application", func(t *testing.T) {
		t.Parallel()
		m, leader, _ := caseUnit(t, false)
		other := sibling(t, m, leader)
		uri := run(t, leader, "secret-add --label keys token=one")
		s := m.Secrets("gpu")[0]
		require.Equal(t, m.URI(s), uri)
		require.Equal(t, "token: one", run(t, leader, "secret-get "+uri))
		require.Equal(t, "token: one", run(t, other, "secret-get --peek "+uri))
		require.Equal(t, "token: one", run(t, other, "secret-get --label keys"), "the owner's label serves all units")
		run(t, leader, "secret-set "+uri+" token=two")
		require.Equal(t, []string{"secret-changed"}, ran(other))
		require.Equal(t, []string{"secret-changed"}, ran(leader), "the owner too, as it has read it")
		require.Equal(t, "token: one", run(t, other, "secret-get "+uri))
		require.Equal(t, "token: two", run(t, other, "secret-get --refresh "+uri))

		_, stderr, code, err := other.Exec(-1, "", "secret-add token=x")
		require.NoError(t, err)
		require.Equal(t, 1, code)
		require.Equal(t, "ERROR this unit is not the leader\n", stderr)
		_, _, code, err = other.Exec(-1, "", "secret-set "+uri+" token=x")
		require.Zero(t, code, "the tool takes it: a follower knows no secret of the application")
		require.ErrorContains(t, err, "is not leader of", "the controller does not")
		_, stderr, code, err = other.Exec(-1, "", "secret-info-get "+uri)
		require.NoError(t, err)
		require.Equal(t, 1, code)
		require.Equal(t, "ERROR secret \""+s.ID+"\" not found\n", stderr)
		require.Equal(t, "null", run(t, other, "secret-ids --format=json"))
	})
	t.Run("a grant ends with its relation", func(t *testing.T) {
		t.Parallel()
		m, u, db := caseUnit(t, true)
		s := m.AddSecret("db", map[string]string{"token": "one"})
		m.Grant(s, db, "gpu")
		run(t, u, "secret-get "+m.URI(s))
		m.Remove(db)
		require.Equal(t, []string{"db-relation-departed db/0", "db-relation-broken"}, ran(u))
		_, stderr, _, err := u.Exec(-1, "", "secret-get "+m.URI(s))
		require.NoError(t, err)
		require.Equal(t, "ERROR permission denied\n", stderr)
	})
}

// What a failed hook reported others is thrown away, what it showed is not.
func TestFailedHookKeepsNothing(t *testing.T) {
	t.Parallel()
	m, u, db := caseUnit(t, false)
	dispatch := filepath.Join(u.CharmDir(), "dispatch")
	const tells = `#!/bin/sh
set -e
relation-set -r db:7 a=1
relation-set -r db:7 --app b=2
state-set c=3
open-port 9401
secret-add token=s3cret
status-set waiting shown
`
	require.NoError(t, os.WriteFile(dispatch, []byte(tells+"exit 1\n"), 0o755))
	require.Error(t, u.Hook("config-changed").Err)
	require.NotContains(t, m.Bag(db, "gpu/0"), "a")
	require.Empty(t, m.Bag(db, "gpu"))
	require.Empty(t, u.State)
	require.Empty(t, u.Ports)
	require.Empty(t, m.Secrets("gpu"))
	require.Equal(t, agent.StatusLine{Status: "waiting", Message: "shown"}, u.Status)
	require.NoError(t, os.WriteFile(dispatch, []byte(tells), 0o755))
	require.NoError(t, u.Hook("config-changed").Err)
	require.Equal(t, "1", m.Bag(db, "gpu/0")["a"])
	require.Equal(t, map[string]string{"b": "2"}, m.Bag(db, "gpu"))
	require.Equal(t, map[string]string{"c": "3"}, u.State)
	require.Len(t, u.Ports, 1)
	require.Len(t, m.Secrets("gpu"), 1)
}
