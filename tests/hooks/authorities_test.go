package hooks

import (
	"encoding/json"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

const (
	authoritiesDir = "/usr/local/share/ca-certificates/concourse-ci-machine"
	systemBundle   = "/etc/ssl/certs/ca-certificates.crt"
)

// gives is what a provider's library (v1) writes for these.
func gives(t *testing.T, certs ...string) map[string]string {
	t.Helper()
	list, err := json.Marshal(append([]string{}, certs...))
	require.NoError(t, err)
	return map[string]string{"certificates": string(list), "version": "1"}
}

// Every unit of mode=auto trusts what the relation gives, the web and the workers, until
// it goes; a person's plan is the hook's.
func TestPrivateAuthoritiesAreTrustedAsLongAsARelationGivesThem(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, nil)
	c.begin()
	c.database()
	c.gossip()
	a, b := hosttest.NewAuthority(t, "a").PEM, hosttest.NewAuthority(t, "b").PEM
	const env = "/var/lib/concourse-worker/worker-config.env"
	before := []map[string]string{{}, {}}
	for k, u := range c.units {
		restart := "systemctl restart " + []string{"concourse-server", "concourse-worker"}[k] + ".service"
		before[k] = tree(u, "/etc", "/opt", "/var/lib/concourse-worker")
		r := u.Model.Relate(15, "receive-ca-certs", "ca")
		require.Empty(t, c.relation(k, "receive-ca-certs", "joined", "ca/0").Commands)
		require.Contains(t, c.status(k), "receive-ca-certs: ca has given no certificate yet")

		r.AppData = gives(t, "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n")
		require.Empty(t, c.relation(k, "receive-ca-certs", "changed").Commands)
		require.Contains(t, c.status(k), "; receive-ca-certs: certifica")
		require.NotContains(t, c.status(k), "hunter2")

		r.AppData = gives(t, a)
		require.Equal(t, []string{"update-ca-certificates", restart}, c.relation(k, "receive-ca-certs", "changed").Commands)
		require.NotContains(t, c.status(k), "receive-ca-certs")
		require.Equal(t, "public\n"+a, u.read(systemBundle))
		var first string
		if k > 0 {
			first = u.read(env)
		}

		r.AppData = gives(t, b, a, b)
		require.Equal(t, []string{"update-ca-certificates", restart}, c.relation(k, "receive-ca-certs", "changed").Commands)
		require.Len(t, certificateFiles(u), 2)
		for _, text := range []string{a, b} {
			require.Contains(t, u.read(systemBundle), text)
		}
		if k > 0 {
			require.Contains(t, u.read("/etc/concourse-ci-machine/wrapper.json"), `"ca_certificates":"`+systemBundle+`"`)
			require.Contains(t, first, "CONCOURSE_CERTS_DIR=/opt/concourse-ci-machine/certs/")
			require.NotEqual(t, first, u.read(env), "Concourse copies a folder once")
			folders, err := u.Root.Glob("/opt/concourse-ci-machine/certs/*")
			require.NoError(t, err)
			require.Len(t, folders, 1)
			to, err := u.Root.Readlink(folders[0])
			require.NoError(t, err)
			require.Equal(t, "/etc/ssl/certs", to)
		}
		r.AppData = gives(t, a, b)
		require.Empty(t, c.relation(k, "receive-ca-certs", "changed").Commands, "the order means nothing")
		stdout, stderr, code := u.person("plan")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "nothing to do")
	}
	require.Equal(t, map[string]string{"version": "1"}, relationOf(c.units[0], "receive-ca-certs").LocalApp)
	c.idle()
	for k, u := range c.units {
		done := c.relation(k, "receive-ca-certs", "broken").Commands
		require.Equal(t, "update-ca-certificates --fresh", done[0])
		unrelate(u, "receive-ca-certs")
		require.Equal(t, "public\n", u.read(systemBundle))
		require.NoError(t, u.Root.Remove(systemBundle))
		after := tree(u, "/etc", "/opt", "/var/lib/concourse-worker")
		maps.DeleteFunc(after, func(p, _ string) bool { return strings.HasPrefix(p, "/etc/ssl") })
		require.Empty(t, differences(before[k], after))
		require.False(t, u.Root.Exists(authoritiesDir))
	}
	c.idle()
}

// certificateFiles are the names in the charm's folder of authorities.
func certificateFiles(u *unit) (names []string) {
	found, err := u.Root.Glob(authoritiesDir + "/*")
	require.NoError(u.t, err)
	for _, f := range found {
		require.Regexp(u.t, `^concourse-ci-machine-[0-9a-f]{32}\.crt$`, path.Base(f))
		names = append(names, path.Base(f))
	}
	return names
}

func TestTrustConvergesAfterAKillAnywhere(t *testing.T) {
	t.Parallel()
	of := func(kind string) func(*unit) (sandbox.Result, error) {
		return func(u *unit) (sandbox.Result, error) {
			return u.RelationHook(relationOf(u, "receive-ca-certs"), kind, "")
		}
	}
	a, b := hosttest.NewAuthority(t, "a").PEM, hosttest.NewAuthority(t, "b").PEM
	related := func(t *testing.T) *unit {
		u := worker(t, fixture("no-gpu"), options{"compute-runtime": "none", "srv-folders": "none"})
		u.Model.Relate(15, "receive-ca-certs", "ca").AppData = gives(t, a)
		return u
	}
	trusting := func(t *testing.T) *unit {
		u := related(t)
		r, err := of("changed")(u)
		u.fine("changed", r, err)
		return u
	}
	killedAnywhere(t, []killCase{
		{"given", related, nil, of("changed"), 6},
		{"another", trusting, func(u *unit) { relationOf(u, "receive-ca-certs").AppData = gives(u.t, b) }, of("changed"), 6},
		{"taken back", trusting, nil, of("broken"), 6},
	})
}

// A unit that is removed by force gets no hook of its relations.
func TestNothingIsTrustedThatAUnitLeftBehind(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), options{"compute-runtime": "none"})
	u.Model.Relate(15, "receive-ca-certs", "ca").AppData = gives(t, hosttest.NewAuthority(t, "a").PEM)
	r, err := u.RelationHook(relationOf(u, "receive-ca-certs"), "changed", "")
	u.fine("changed", r, err)
	require.Len(t, certificateFiles(u), 1)
	u.hook("stop")
	require.Contains(t, u.hook("remove").Commands, "update-ca-certificates --fresh")
	require.False(t, u.Root.Exists(authoritiesDir))
	require.Equal(t, "public\n", u.read(systemBundle))
}
