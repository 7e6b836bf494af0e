package web

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// databaseLink has the databag of PostgreSQL's charm.
func databaseLink() *model.Relation {
	return &model.Relation{ID: "postgresql:4", App: "postgresql", Own: map[string]string{}, OwnApp: map[string]string{},
		Remote:  map[string]string{"database": "concourse", "endpoints": "10.0.0.9:5432", "secret-user": "secret:d2user0000000000000g"},
		Secrets: map[string]map[string]string{"secret:d2user0000000000000g": {"username": "relation_4", "password": "p%s w:rd/@"}}}
}

// observedWeb is a web that has all that it needs.
func observedWeb(t *testing.T, set map[string]any) Observed {
	t.Helper()
	raw := map[string]any{"mode": "web"}
	maps.Copy(raw, set)
	cfg, problems := config.Parse(raw, nil)
	require.Empty(t, problems)
	return Observed{Observed: role.Observed{Event: "config-changed", Config: cfg, Arch: "amd64", CharmDir: hosttest.CharmDir(t), Now: hosttest.Now,
		Release: release.Release{Version: "8.2.5", Arch: "amd64"}, ReleaseID: "8.2.5", Programs: []byte("1"),
		Units: map[string]resource.UnitState{},
		Half:  model.WebRole,
		Facts: model.Facts{Unit: "concourse-ci-machine/0", Model: "ci", Config: raw, Leader: true, Role: model.WebRole, Web: &model.Web{Address: "10.0.0.2", PeerAddress: "10.0.0.3",
			SecretID: "secret:d2web00000000000000g", Secret: roletest.WebSecrets().Content(), Database: databaseLink(), Workers: map[string]model.Worker{}}}}}
}

func webEnv(t *testing.T, d Desired) map[string]string {
	t.Helper()
	data, ok := resourcetest.File(d.Resources, "/var/lib/concourse/config.env")
	require.True(t, ok)
	vars := map[string]string{}
	for line := range strings.Lines(data) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		vars[k] = strings.Trim(v, `"`)
	}
	return vars
}

func TestWebHasItsKeysDatabaseAndAddress(t *testing.T) {
	d := Desire(observedWeb(t, nil), nil)
	require.Empty(t, d.Causes)
	require.True(t, d.Up)
	env := webEnv(t, d)
	for key, want := range map[string]string{
		"CONCOURSE_POSTGRES_HOST": "10.0.0.9", "CONCOURSE_POSTGRES_PORT": "5432", "CONCOURSE_POSTGRES_USER": "relation_4",
		"CONCOURSE_POSTGRES_PASSWORD": "p%s w:rd/@", "CONCOURSE_POSTGRES_DATABASE": "concourse",
		"CONCOURSE_EXTERNAL_URL": "http://10.0.0.2:8080", "CONCOURSE_PEER_ADDRESS": "10.0.0.3", "CONCOURSE_BIND_PORT": "8080",
		"CONCOURSE_ADD_LOCAL_USER": "admin:" + roletest.WebSecrets().AdminPassword, "CONCOURSE_CLUSTER_NAME": "ci",
	} {
		require.Equal(t, want, env[key], key)
	}
	require.Equal(t, 0o600, int(resourcetest.Mode(d.Resources, "/var/lib/concourse/config.env")))
	key, ok := resourcetest.File(d.Resources, "/var/lib/concourse/keys/tsa_host_key")
	require.True(t, ok)
	require.Equal(t, roletest.WebSecrets().TSAHostKey, key)
	require.Equal(t, []juju.Port{juju.TCP(8080)}, d.Ports)
}

// D3: the predecessor's web units had different keys.
func TestD3EveryWebHasTheSameKeys(t *testing.T) {
	leader, other := observedWeb(t, nil), observedWeb(t, nil)
	other.Facts.Leader = false
	a, b := Desire(leader, nil), Desire(other, nil)
	for _, path := range []string{"/var/lib/concourse/keys/tsa_host_key", "/var/lib/concourse/keys/session_signing_key"} {
		x, ok := resourcetest.File(a.Resources, path)
		require.True(t, ok)
		y, _ := resourcetest.File(b.Resources, path)
		require.Equal(t, x, y, path)
	}
	other.Facts.Web.Secret, other.Facts.Web.SecretID = nil, ""
	d := Desire(other, nil)
	require.False(t, d.Up)
	require.Equal(t, []status.Cause{{Kind: status.Waiting, Text: "Waiting for the leader to share the web's keys"}}, d.Causes)
}

// D5: without a database the web is down, and the status has the command that adds one.
func TestD5WebWithoutADatabaseIsDownAndHasNoCredentials(t *testing.T) {
	up := observedWeb(t, nil)
	up.WebEnv = []byte("CONCOURSE_POSTGRES_PASSWORD=old\nMY_OWN=kept\n")
	for name, tt := range map[string]struct {
		link *model.Relation
		want status.Cause
	}{
		"no relation":        {nil, status.Block("PostgreSQL database required").Run("juju integrate concourse-ci-machine:postgresql <postgresql application>:database")},
		"no credentials yet": {&model.Relation{ID: "postgresql:4"}, status.Cause{Kind: status.Waiting, Text: "Waiting for PostgreSQL database..."}},
	} {
		o := up
		web := *up.Facts.Web
		web.Database = tt.link
		o.Facts.Web = &web
		d := Desire(o, nil)
		require.Contains(t, d.Causes, tt.want, name)
		require.False(t, d.Up, name)
		env := webEnv(t, d)
		require.NotContains(t, env, "CONCOURSE_POSTGRES_PASSWORD", name)
		require.Equal(t, "kept", env["MY_OWN"], name)
		require.False(t, resourcetest.Service(t, d.Resources, concourse.WebUnit).Up, name)
	}
}

// Without a database only the operator's lines stay in the web's environment.
func TestWebWithoutADatabaseKeepsNoCredentialsOfOptionsAndRelations(t *testing.T) {
	o := observedWeb(t, map[string]any{"extra-local-users": "ann:hunter2", "oidc-issuer": "https://id", "oidc-client-id": "ci", "oidc-client-secret": "hunter2"})
	const id = "secret:d2ldap0000000000000g"
	o.Facts.Web.LDAP = &model.Relation{App: "glauth", Remote: map[string]string{"ldaps_urls": `["ldaps://ldap"]`, "base_dn": "dc=o", "bind_dn": "cn=ci,dc=o",
		"bind_password_secret": id, "auth_method": "simple", "starttls": "True"}, Secrets: map[string]map[string]string{id: {"password": "hunter2"}}}
	up := Desire(o, nil)
	require.Equal(t, "hunter2", webEnv(t, up)["CONCOURSE_LDAP_BIND_PW"], "or this test shows nothing")
	data, _ := resourcetest.File(up.Resources, "/var/lib/concourse/config.env")
	o.WebEnv, o.Noted = []byte(data+"MY_OWN=kept\n"), []string{"CONCOURSE_LDAP_INSECURE_NO_SSL", "CONCOURSE_LDAP_START_TLS"}
	o.Facts.Web.Database = nil
	require.Equal(t, map[string]string{"MY_OWN": "kept", "CONCOURSE_TSA_HOST_KEY": "/var/lib/concourse/keys/tsa_host_key",
		"CONCOURSE_SESSION_SIGNING_KEY": "/var/lib/concourse/keys/session_signing_key", "CONCOURSE_TSA_AUTHORIZED_KEYS": "/var/lib/concourse/keys/authorized_worker_keys"},
		webEnv(t, Desire(o, nil)), "no credentials of the database, options and relations")
}

func TestStatusOfARemovedWebRequiresNoDatabase(t *testing.T) {
	o := observedWeb(t, nil)
	o.Facts.Web.Database, o.Facts.Removed = nil, true
	d := Desire(o, nil)
	require.False(t, d.Up)
	require.Equal(t, []status.Cause{{Kind: status.Waiting, Text: "the unit is being removed, and its database is not related any more"}}, d.Causes)
}

// D16: a worker's key restarts nothing.
func TestD16KeysOfWorkersReloadAndNeverRestart(t *testing.T) {
	o := observedWeb(t, nil)
	before := Desire(o, nil)
	o.Facts.Web.Workers = map[string]model.Worker{"tsa:3 gpu/0": {Unit: "gpu/0", Key: roletest.TSAKey}}
	after := Desire(o, nil)
	require.Equal(t, resourcetest.Trigger(t, before.Resources, RestartWeb).Inputs, resourcetest.Trigger(t, after.Resources, RestartWeb).Inputs)
	require.NotEqual(t, resourcetest.Trigger(t, before.Resources, ReloadWeb).Inputs, resourcetest.Trigger(t, after.Resources, ReloadWeb).Inputs)
	keys, ok := resourcetest.File(after.Resources, "/var/lib/concourse/keys/authorized_worker_keys")
	require.True(t, ok)
	require.Equal(t, roletest.TSAKey+"\n", keys)
}

// D23: a web has nothing to do with GPUs.
func TestD23WebIgnoresGPUOptions(t *testing.T) {
	d := Desire(observedWeb(t, map[string]any{"compute-runtime": "rocm"}), nil)
	require.Empty(t, d.Causes)
	require.False(t, resourcetest.Absent(d.Resources, "/etc/cdi/amd.json"))
}

// D19: keys of workers that left are taken back, and their connections end.
func TestD19WorkersThatLeftAreDisconnected(t *testing.T) {
	o := observedWeb(t, nil)
	o.Facts.Web.Departed = []model.DepartedWorker{{Worker: model.Worker{Unit: "gpu/1", Key: roletest.TSAKey, Address: "10.0.0.8"}}, {Worker: model.Worker{Unit: "gpu/2", Key: roletest.TSAKey}}}
	var cut []concourse.Disconnect
	reloaded := false
	for _, r := range Desire(o, nil).Resources {
		switch r := r.(type) {
		case resource.Trigger:
			reloaded = reloaded || r.Name == ReloadWeb
		case concourse.Disconnect:
			require.True(t, reloaded, "first the web reads the keys again")
			cut = append(cut, r)
		}
	}
	require.Equal(t, []concourse.Disconnect{{Addr: "10.0.0.8", Why: "gpu/1 is not related any more"}}, cut, "gpu/2 told no address")
}

func TestNewEncryptionKeyKeepsTheOldOne(t *testing.T) {
	o := observedWeb(t, map[string]any{"encryption-key": "0123456789abcdef"})
	d := Desire(o, nil)
	require.Equal(t, "0123456789abcdef", d.Secret[model.EncryptionKey])
	require.NotContains(t, d.Secret, model.OldEncryptionKey)
	require.Equal(t, "0123456789abcdef", webEnv(t, d)["CONCOURSE_ENCRYPTION_KEY"])

	o.Facts.Web.Secret = d.Secret
	o.Config.Web.EncryptionKey = "fedcba9876543210"
	d = Desire(o, nil)
	env := webEnv(t, d)
	require.Equal(t, "fedcba9876543210", env["CONCOURSE_ENCRYPTION_KEY"])
	require.Equal(t, "0123456789abcdef", env["CONCOURSE_OLD_ENCRYPTION_KEY"])

	o.Facts.Web.Secret, o.Config.Web.EncryptionKey = d.Secret, ""
	env = webEnv(t, Desire(o, nil))
	require.NotContains(t, env, "CONCOURSE_ENCRYPTION_KEY", "what was encrypted is read with the old key, and written plain")
	require.Equal(t, "fedcba9876543210", env["CONCOURSE_OLD_ENCRYPTION_KEY"])

	o.Facts.Leader, o.Facts.Web.Secret, o.Config.Web.EncryptionKey = false, d.Secret, "another key 0123"
	require.Equal(t, "fedcba9876543210", webEnv(t, Desire(o, nil))["CONCOURSE_ENCRYPTION_KEY"], "the leader says when")
}

// The reason names the obstacle, which may be a missing web or the option.
func TestMetricsWithoutAWebReportTheReason(t *testing.T) {
	for name, tc := range map[string]struct {
		metrics bool
		want    string
	}{"off": {false, "enable-metrics is off"}, "on": {true, "no web runs here"}} {
		o := observedWeb(t, map[string]any{"enable-metrics": tc.metrics})
		o.Facts.Web.Database = nil
		var whys []string
		for _, r := range Desire(o, nil).Resources {
			if a, is := r.(resource.Absent); is && strings.Contains(a.Path, "exporter") && a.Why != "this unit's role has no rocm-exporter" {
				whys = append(whys, a.Why)
			}
			if s, is := r.(resource.Service); is && s.Unit == role.PebbleUnit {
				whys = append(whys, s.Why)
			}
		}
		require.Equal(t, []string{tc.want, tc.want, tc.want, tc.want}, whys, name)
	}
}

func TestDatabaseIsCheckedAgainAfterItsCredentialsChange(t *testing.T) {
	o := observedWeb(t, nil)
	before := resourcetest.Trigger(t, Desire(o, nil).Resources, RepairDatabase)
	require.NotNil(t, before.Do)
	l := databaseLink()
	l.Secrets["secret:d2user0000000000000g"]["username"] = "relation_5"
	o.Facts.Web.Database = l
	require.NotEqual(t, before.Inputs, resourcetest.Trigger(t, Desire(o, nil).Resources, RepairDatabase).Inputs)
}

// A process reads the trusted authorities only once.
func TestWebRestartsAfterAuthoritiesChange(t *testing.T) {
	o := observedWeb(t, nil)
	plain := resourcetest.Trigger(t, Desire(o, nil).Resources, RestartWeb).Inputs
	o.Facts.Authorities.Relations = []model.Relation{{App: "ca", Units: map[string]map[string]string{"ca/0": {"ca": authority(t)}}}}
	d := Desire(o, nil)
	require.Empty(t, d.Causes)
	require.Len(t, d.Trusted, 1)
	require.Len(t, resourcetest.Trigger(t, d.Resources, RestartWeb).Inputs, len(plain)+1)
	at := func(name string) int {
		return slices.IndexFunc(d.Resources, func(r plan.Resource) bool { is, ok := r.(resource.Trigger); return ok && is.Name == name })
	}
	require.Less(t, at(role.UpdateTrust), at(RestartWeb))
	o.Facts.Authorities.Relations = nil
	require.Equal(t, plain, resourcetest.Trigger(t, Desire(o, nil).Resources, RestartWeb).Inputs)
}

func TestDesireDoesNotChangeObserved(t *testing.T) {
	o, same := observedWeb(t, nil), observedWeb(t, nil)
	same.CharmDir = o.CharmDir
	one, two := Desire(o, nil), Desire(o, nil)
	require.Equal(t, same, o)
	require.Len(t, two.Resources, len(one.Resources))
	one.Resources, two.Resources = nil, nil // they have functions
	require.Equal(t, one, two)
}
