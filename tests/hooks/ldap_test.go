package hooks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// All webs log people in by the server of the relation, whatever the options name, as long
// as it lasts; its password is in the environment and nowhere more.
func TestLDAPByRelation(t *testing.T) {
	t.Parallel()
	c := webs(t, 2, options{"ldap-host": "old.example.org:389", "ldap-bind-dn": "cn=old", "ldap-bind-pw": "old pass",
		"ldap-user-search-base-dn": "ou=people,dc=o", "ldap-user-search-username": "mail"})
	for k, u := range c.units {
		require.NoError(t, u.Root.WriteFile(webEnvFile, []byte(u.read(webEnvFile)+"CONCOURSE_LDAP_START_TLS=true\n"), 0o600))
		c.hook(k, "config-changed")
		require.Contains(t, u.read(webEnvFile), "CONCOURSE_LDAP_START_TLS=true\n", "the operator's own")
	}
	const id = "d2ldap0000000000001g"
	restart := []string{"systemctl restart concourse-server.service"}
	for k, u := range c.units {
		r := u.Model.Relate(15, "ldap", "glauth")
		c.relation(k, "ldap", "created")
		if k == 0 {
			require.Equal(t, map[string]string{"user": "ci", "group": u.Model.ModelName}, r.LocalApp)
		} else {
			require.Empty(t, r.LocalApp, "the leader's to write")
		}
		require.Contains(t, c.status(k), "waiting: ldap: glauth has no account for this application yet")
		require.Contains(t, u.read(webEnvFile), "CONCOURSE_LDAP_HOST=old.example.org:389\n", "until there is another")
		r.AppData = map[string]string{"urls": `["ldap://10.0.0.7:3893"]`, "ldaps_urls": `["ldaps://ldap.example.org"]`, "base_dn": "dc=example,dc=org",
			"bind_dn": "cn=ci,dc=example,dc=org", "bind_password_secret": "secret:" + id, "auth_method": "simple", "starttls": "True"}
		u.Model.Secrets = append(u.Model.Secrets, &jujutest.Secret{ID: id, Owner: "glauth", Revisions: []map[string]string{{"password": "bind pass"}}})
		c.relation(k, "ldap", "changed")
		require.Contains(t, c.status(k), "waiting: ldap: bind_password_secret: the secret can't be read; more: juju run ci/")
		u.secret(id).Granted = true
		require.Equal(t, restart, c.hook(k, "update-status").Commands)
		env := u.read(webEnvFile)
		for _, want := range []string{"HOST=ldap.example.org:636", "BIND_DN=cn=ci,dc=example,dc=org", `BIND_PW="bind pass"`, "START_TLS=false", "INSECURE_NO_SSL=false",
			"USER_SEARCH_BASE_DN=ou=people,dc=o", "USER_SEARCH_USERNAME=mail", "USER_SEARCH_ID_ATTR=uid", "GROUP_SEARCH_BASE_DN=dc=example,dc=org"} {
			require.Contains(t, env, "CONCOURSE_LDAP_"+want+"\n")
		}
		require.Equal(t, "active: Web server ready (v8.2.5) "+url(u), c.status(k))
	}
	c.idle()
	u := c.units[1]
	s := u.secret(id)
	s.Revisions = append(s.Revisions, map[string]string{"password": "rotated"})
	require.Equal(t, restart, u.secretChanged("secret:"+id).Commands)
	require.Contains(t, u.read(webEnvFile), "CONCOURSE_LDAP_BIND_PW=rotated\n")
	for k, u := range c.units {
		u.keeps("bind pass", "rotated")
		require.Equal(t, restart, c.relation(k, "ldap", "broken").Commands)
		unrelate(u, "ldap")
		env := u.read(webEnvFile)
		require.Contains(t, env, "CONCOURSE_LDAP_HOST=old.example.org:389\n", "the options count again")
		for _, gone := range []string{"START_TLS", "INSECURE_NO_SSL", "NAME_ATTR", "GROUP_SEARCH", "bind pass", "rotated"} {
			require.NotContains(t, env, gone)
		}
		require.Empty(t, u.holding("bind pass"))
		require.False(t, u.Root.Exists("/var/lib/concourse-ci-machine/web-limit"))
	}
	c.idle()
}
