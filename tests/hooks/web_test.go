package hooks

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

const webEnvFile = "/var/lib/concourse/config.env"

// keeps requires that nothing that a unit reports others or is seen to run has one of the
// secrets in it.
func (u *unit) keeps(secrets ...string) {
	u.t.Helper()
	said := slices.Clone(u.trace())
	for _, s := range u.Model.Statuses {
		said = append(said, s.Message)
	}
	for _, l := range u.Model.Logs {
		said = append(said, l.Message)
	}
	for _, r := range u.Model.Relations {
		for _, bag := range []map[string]string{r.Local, r.LocalApp} {
			said = append(append(said, slices.Collect(maps.Keys(bag))...), slices.Collect(maps.Values(bag))...)
		}
	}
	for _, a := range u.Model.Actions {
		said = append(append(said, a.Log...), a.Message)
	}
	for _, secret := range append(secrets, "PRIVATE KEY") {
		require.NotEmpty(u.t, secret)
		for _, s := range said {
			require.NotContains(u.t, s, secret)
		}
	}
}

// holding are the unit's files below /etc, /opt, /run and /var with a text.
func (u *unit) holding(text string) (paths []string) {
	u.t.Helper()
	require.NotEmpty(u.t, text)
	for _, top := range []string{"/etc", "/opt", "/run", "/var"} {
		if !u.Root.Exists(top) {
			continue
		}
		require.NoError(u.t, filepath.WalkDir(u.Root.Path(top), func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(p)
			if err != nil || !strings.Contains(string(data), text) {
				return err
			}
			info, err := d.Info()
			require.Zero(u.t, info.Mode().Perm()&0o077, "%s holds a secret", p)
			paths = append(paths, u.Root.Rel(p))
			return err
		}))
	}
	return paths
}

// secretChanged is the hook by which Juju reports a new revision.
func (u *unit) secretChanged(id string) sandbox.Result {
	u.t.Helper()
	r, err := u.Event(juju.Event{Name: "secret-changed", SecretID: id})
	return u.fine("secret-changed", r, err)
}

func (u *unit) secret(id string) *jujutest.Secret {
	u.t.Helper()
	id = id[strings.LastIndexAny(id, ":/")+1:]
	i := slices.IndexFunc(u.Model.Secrets, func(s *jujutest.Secret) bool { return s.ID == id })
	require.GreaterOrEqual(u.t, i, 0, id)
	return u.Model.Secrets[i]
}

func starts(commands []string) (n int) {
	for _, c := range commands {
		if strings.HasSuffix(c, "start concourse-server.service") { // restart, too
			n++
		}
	}
	return n
}

// The database comes in pieces, changes its password, and goes.
func TestDatabaseComesRotatesAndGoes(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 1, options{"mode": "web"}).giveWebKeys()
	u := c.units[0]
	c.begin()
	require.Equal(t, "blocked: PostgreSQL database required — run: juju integrate ci:postgresql <postgresql application>:database", c.status(0))
	require.Empty(t, c.up(0))

	r := u.Model.Relate(4, "postgresql", "postgresql")
	c.relation(0, "postgresql", "created")
	require.Equal(t, "waiting: Waiting for PostgreSQL database...", c.status(0))
	require.Equal(t, "concourse", r.LocalApp["database"])
	require.Contains(t, r.LocalApp["requested-secrets"], `"tls-ca"`)
	require.Equal(t, r.LocalApp["requested-secrets"], r.Local["requested-secrets"])
	r.Units = map[string]map[string]string{"postgresql/0": {}}
	c.relation(0, "postgresql", "joined", "postgresql/0")
	require.Equal(t, "waiting: Waiting for PostgreSQL database...", c.status(0))

	secret := &jujutest.Secret{ID: strings.TrimPrefix(userSecret, "secret:"), Owner: "postgresql",
		Revisions: []map[string]string{{"username": "relation_4", "password": "first%20pass/word"}}}
	u.Model.Secrets = append(u.Model.Secrets, secret)
	r.AppData = map[string]string{"database": "concourse", "endpoints": c.pg.Address(), "secret-user": userSecret}
	c.relation(0, "postgresql", "changed", "postgresql/0")
	require.Equal(t, "waiting: postgresql: secret-user: the secret can't be read; Waiting for PostgreSQL database...", c.status(0))
	require.Empty(t, c.up(0))

	u.secret(userSecret).Granted = true
	res := c.hook(0, "update-status")
	require.Equal(t, "active: Web server ready (v8.2.5) "+url(u), c.status(0))
	require.Equal(t, 1, starts(res.Commands), "%q", res.Commands)
	require.Contains(t, res.Commands, "systemctl enable concourse-server.service", "D21")
	require.Contains(t, u.read(webEnvFile), `CONCOURSE_POSTGRES_PASSWORD=first%20pass/word`+"\n")
	require.Contains(t, u.read(webEnvFile), "CONCOURSE_POSTGRES_SSLMODE=disable\n")
	c.idle()

	s := u.secret(userSecret)
	s.Revisions = append(s.Revisions, map[string]string{"username": "relation_4", "password": "second$(pass)"})
	res = u.secretChanged(userSecret)
	require.Equal(t, []string{"systemctl restart concourse-server.service"}, res.Commands)
	require.Contains(t, u.read(webEnvFile), "second$(pass)")
	require.Empty(t, u.holding("first%20pass/word"))
	c.idle()
	require.Equal(t, []string{"/var/lib/concourse-ci-machine/juju.json", webEnvFile}, slices.Sorted(slices.Values(u.holding("second$(pass)"))))

	r = relationOf(u, "postgresql")
	c.relation(0, "postgresql", "departed", "postgresql/0")
	delete(r.Units, "postgresql/0")
	res = c.relation(0, "postgresql", "broken")
	unrelate(u, "postgresql")
	require.Equal(t, []string{"systemctl stop concourse-server.service", "systemctl disable concourse-server.service"}, res.Commands)
	require.Equal(t, "blocked: PostgreSQL database required — run: juju integrate ci:postgresql <postgresql application>:database", c.status(0))
	require.NotContains(t, u.read(webEnvFile), "POSTGRES")
	require.Empty(t, u.holding("second$(pass)"))
	c.idle()
	u.keeps("first%20pass/word", "second$(pass)", password)

	c.database()
	res = c.hook(0, "update-status")
	require.Equal(t, "active", res.Status().Status)
	require.Equal(t, 1, starts(res.Commands), "%q", res.Commands)
}

// A database that is away is waited for; the web's hook does not fail.
func TestDatabaseThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 1, options{"mode": "web"}).giveWebKeys()
	c.begin()
	c.database()
	relationOf(c.units[0], "postgresql").AppData["endpoints"] = "127.0.0.1:9"
	c.relation(0, "postgresql", "changed", "postgresql/0")
	require.Contains(t, c.status(0), "waiting: cannot check this web's rights in the database (attempt 1): ")
	relationOf(c.units[0], "postgresql").AppData["endpoints"] = c.pg.Address()
	c.pg.Refuse(true) // its charm has not reported the server yet
	c.hook(0, "update-status")
	require.Contains(t, c.status(0), "waiting: cannot check this web's rights in the database (attempt 2): ")
	require.Contains(t, c.units[0].refused("check-status", nil), "the server refuses the password")
	require.Empty(t, c.up(0))
	c.pg.Refuse(false)
	c.hook(0, "update-status")
	require.Equal(t, "active: Web server ready (v8.2.5) "+url(c.units[0]), c.status(0))
}

// D3: webs of one application share keys, and the one that is not the leader
// waits for them.
func TestD3SecondWebWaitsForTheLeadersKeys(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 2, options{"mode": "web"}).giveWebKeys()
	c.database()
	c.hook(1, "install")
	c.relation(1, "postgresql", "changed", "postgresql/0")
	require.Equal(t, "waiting: Waiting for the leader to share the web's keys", c.status(1))
	require.Empty(t, c.up(1))
	c.hook(0, "install")
	n := networkOf(c)
	n.settle()
	for k, u := range c.units {
		require.Equal(t, "active: Web server ready (v8.2.5) "+url(u), c.status(k))
		require.Equal(t, string(workerKey()), u.read("/var/lib/concourse/keys/tsa_host_key"))
		require.Contains(t, u.read(webEnvFile), "CONCOURSE_PEER_ADDRESS="+u.Model.Address+"\n")
		u.keeps(password)
	}
	// Another leader: nothing changes, and it can rotate.
	c.units[0].Model.Leader, c.units[1].Model.Leader = false, true
	require.Empty(t, c.hook(1, "leader-elected").Commands)
	require.Empty(t, n.settle())
	c.idle()
	a := c.units[1].action("rotate-keys", map[string]any{"keys": "admin-password"})
	require.Equal(t, "completed", a.Status, a.Message)
	n.shareAll()
	require.Equal(t, []string{"ci/0 systemctl restart concourse-server.service"}, n.settle())
	require.NotContains(t, c.units[0].read(webEnvFile), password)
	fresh := strings.TrimSpace(c.units[1].secret(relationOf(c.units[1], "peers").LocalApp["web-secret"]).Revisions[1]["admin-password"])
	for _, u := range c.units {
		require.Contains(t, u.read(webEnvFile), "CONCOURSE_ADD_LOCAL_USER=admin:"+fresh+"\n")
		u.keeps(fresh)
	}
	c.idle()
}

// D34: an option may name a secret; without the grant the status reports what to run, and a
// new revision is taken over.
func TestD34OptionThatNamesASecret(t *testing.T) {
	t.Parallel()
	c := webs(t, 1, nil)
	u := c.units[0]
	const id = "d2ldap0000000000000g"
	u.Model.Secrets = append(u.Model.Secrets, &jujutest.Secret{ID: id, Owner: "admin", Revisions: []map[string]string{{"value": "bind pass"}}})
	u.set(options{"ldap-host": "ldap.example.org:636", "ldap-bind-dn": "cn=ci", "ldap-bind-pw": "secret:" + id,
		"ldap-user-search-base-dn": "ou=people", "ldap-user-search-username": "uid"})
	c.hook(0, "config-changed")
	require.Equal(t, "blocked: ldap-bind-pw: cannot read the secret (permission denied); run: juju grant-secret <name> <application>", c.status(0))
	require.Equal(t, webUp, c.up(0), "a wrong option ends nothing")
	u.secret(id).Granted = true
	r := c.hook(0, "config-changed")
	require.Equal(t, []string{"systemctl restart concourse-server.service"}, r.Commands)
	require.Contains(t, u.read(webEnvFile), "bind pass")
	s := u.secret(id)
	s.Revisions = append(s.Revisions, map[string]string{"value": "other pass"})
	r = u.secretChanged("secret:" + id)
	require.Equal(t, []string{"systemctl restart concourse-server.service"}, r.Commands)
	require.Contains(t, u.read(webEnvFile), "other pass")
	u.keeps("bind pass", "other pass")
	// D26: what was cleared no longer exists.
	u.set(options{"ldap-host": "", "ldap-bind-dn": "", "ldap-bind-pw": "", "ldap-user-search-base-dn": "", "ldap-user-search-username": ""})
	c.hook(0, "config-changed")
	require.NotContains(t, u.read(webEnvFile), "LDAP")
	require.Empty(t, u.holding("other pass"))
	c.idle()
}

// Everything that is in the way is named at once.
func TestSeveralCausesOfAWebAreAllNamed(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 2, options{"mode": "web", "tls-enabled": true, "external-url": "https://ci.example.org"})
	u := c.units[1]
	u.Model.Address = ""
	c.hook(1, "install")
	s := u.Model.Status()
	require.Equal(t, "blocked", s.Status)
	for _, want := range []string{"PostgreSQL database required — run: juju integrate ci:postgresql <postgresql application>:database", "Waiting for the leader to share the web's keys",
		"Waiting for this unit's address: Juju has none yet", "tls-enabled: a certificate is missing: without a certificate set tls-enabled=false — run: juju integrate ci:certificates <certificates application>"} {
		require.Contains(t, u.refused("check-status", nil), want)
	}
	require.Equal(t, "PostgreSQL database required; tls-enabled: a certificate is missing; and 2 more: juju run ci/1 check-status", s.Message)
	u.set(options{"mode": "both", "web-port": 2222, "encryption-key": "short"})
	c.hook(1, "config-changed")
	s = u.Model.Status()
	require.Equal(t, "blocked", s.Status)
	require.Contains(t, s.Message, "; and 2 more: juju run ci/1 check-status")
	for _, want := range []string{"mode: ", "web-port: ", "encryption-key: "} {
		require.Contains(t, u.refused("check-status", nil), want)
	}
}

// What does not answer is not ready, and the text names the place to look.
func TestWebThatDoesNotAnswerIsNotReady(t *testing.T) {
	t.Parallel()
	c := webs(t, 1, nil)
	u := c.units[0]
	u.systemctl("kill", webUnit)
	u.Machine.Ends = func(string) string { return "auto-restart" }
	u.systemctl("start", webUnit)
	r := c.hook(0, "update-status")
	require.Empty(t, r.Commands, "systemd is trying already")
	require.Contains(t, c.status(0), "waiting: Web not ready: ")
	require.Contains(t, c.status(0), " — run: juju ssh ci/0 journalctl --unit concourse-server")

	// Its closed port reports nothing of a database that it can't use.
	c.pg.Refuse(true)
	c.hook(0, "update-status")
	require.Contains(t, c.status(0), "waiting: Web not ready: cannot reach the database concourse at 127.0.0.1:")
	require.Contains(t, u.refused("check-status", nil), ": the server refuses the password")
}

// D32, D35: a proxy's password is in files of root alone, and in no log.
func TestD32D35ProxyIsSecret(t *testing.T) {
	t.Parallel()
	const proxy = "http://user:hidden@proxy.example.org:3128"
	c := webs(t, 2, options{"http-proxy": proxy, "https-proxy": proxy, "no-proxy": "10.0.0.0/8"})
	networkOf(c).settle()
	for k, u := range c.units {
		c.hook(k, "config-changed")
		env := u.read(webEnvFile)
		require.Contains(t, env, "http_proxy="+proxy+"\n")
		require.Equal(t, "no_proxy=10.0.0.0/8,"+u.Model.Address+","+c.units[1-k].Model.Address+"\n", lineOf(env, "no_proxy="), "webs reach each other directly")
		require.NotEmpty(t, u.holding("hidden"))
		u.keeps("hidden")
		u.set(options{"http-proxy": "", "https-proxy": "", "no-proxy": ""})
		c.hook(k, "config-changed")
		require.NotContains(t, u.read(webEnvFile), "http_proxy=", "D26")
		require.Empty(t, u.holding("hidden"))
	}
	c.idle()
}
