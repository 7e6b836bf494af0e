package hooks

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// peered is a unit among peers, with keys that are made already. Whoever asks for
// its web is answered, also in the units that are forked from it.
func peered(t *testing.T, set options) *unit {
	t.Helper()
	u := newUnit(t, fixture("no-gpu"), set)
	u.giveKey()
	u.answered()
	for _, name := range []string{"tsa_host_key", "session_signing_key"} {
		require.NoError(t, u.Root.WriteFile("/var/lib/concourse/keys/"+name, workerKey(), 0o600))
	}
	u.Model.Relate(1, "peers", u.Model.App()).LocalApp["admin-password"] = password
	return u
}

// answered has whoever asks for the unit's web answered, whichever unit asks.
func (u *unit) answered() {
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, sandbox.WebAnswer(r.URL.Path))
	}))
	u.t.Cleanup(answers.Close)
	u.set(options{"web-port": answers.Listener.Addr().(*net.TCPAddr).Port})
}

// databased relates the unit to a database with credentials.
func (u *unit) databased() *unit {
	u.t.Helper()
	pg, err := sandbox.NewPostgres()
	require.NoError(u.t, err)
	u.t.Cleanup(func() { pg.Close() })
	r := u.Model.Relate(4, "postgresql", "postgresql")
	r.Units = map[string]map[string]string{"postgresql/0": {}}
	r.AppData = map[string]string{"database": "concourse", "endpoints": pg.Address(), "secret-user": userSecret}
	u.Model.Secrets = append(u.Model.Secrets, &jujutest.Secret{ID: strings.TrimPrefix(userSecret, "secret:"), Owner: "postgresql", Granted: true,
		Revisions: []map[string]string{{"username": "relation_4", "password": "pw"}}})
	return u
}

func TestWebsRunKilledAnywhereConverges(t *testing.T) {
	t.Parallel()
	hook := func(name string) func(*unit) (sandbox.Result, error) {
		return func(u *unit) (sandbox.Result, error) { return u.Hook(name) }
	}
	of := func(endpoint, kind, remote string) func(*unit) (sandbox.Result, error) {
		return func(u *unit) (sandbox.Result, error) {
			return u.RelationHook(relationOf(u, endpoint), kind, remote)
		}
	}
	bare := func(t *testing.T) *unit { return peered(t, options{"mode": "web"}) }
	fresh := func(t *testing.T) *unit { return bare(t).databased() }
	ready := func(t *testing.T) *unit {
		u := fresh(t)
		tsa := u.Model.Relate(10, "tsa", "gpu")
		tsa.Units = map[string]map[string]string{"gpu/0": {"worker-public-key": tsaKey, "ingress-address": "10.0.1.10"}}
		u.hook("install")
		u.schema("825")
		return u
	}
	auto := func(leader bool) func(t *testing.T) *unit {
		return func(t *testing.T) *unit {
			u := peered(t, options{"mode": "auto"}).databased()
			u.Model.Leader = true
			u.hook("install") // the application has its keys, and the address of the web
			if leader {
				return u
			}
			u.Model.Leader = false
			u.hook("update-status")
			require.True(t, u.Machine.Up("concourse-worker.service"))
			return u
		}
	}
	killedAnywhere(t, []killCase{
		{"install", fresh, nil, hook("install"), 15},
		{"database", func(t *testing.T) *unit { u := bare(t); u.hook("install"); return u.databased() }, nil, of("postgresql", "changed", "postgresql/0"), 8},
		{"new worker key", ready, func(u *unit) {
			relationOf(u, "tsa").Units["gpu/1"] = map[string]string{"worker-public-key": strings.Replace(tsaKey, "1s2c", "1s3c", 1), "ingress-address": "10.0.1.11"}
		}, of("tsa", "changed", "gpu/1"), 2},
		{"worker gone", ready, nil, of("tsa", "departed", "gpu/0"), 2},
		{"other password of the database", ready, func(u *unit) {
			s := u.secret(userSecret)
			s.Revisions = []map[string]string{{"username": "relation_5", "password": "other"}}
		}, hook("update-status"), 3},
		{"new release", ready, func(u *unit) {
			u.Model.Resources["concourse-release"] = releaseTarball("8.2.6")
			u.set(options{"version": "8.2.6"})
		}, hook("upgrade-charm"), 3},
		{"database gone", ready, nil, of("postgresql", "broken", ""), 3},
		{"becomes the leader", auto(false), func(u *unit) { u.Model.Leader = true }, hook("leader-elected"), 12},
		{"is the leader no more", auto(true), func(u *unit) { u.Model.Leader = false }, hook("update-status"), 12},
		{"remove", ready, nil, hook("remove"), 8},
	})
}
