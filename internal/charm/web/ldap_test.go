package web

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

func TestLDAPIsReadFromTheRelation(t *testing.T) {
	const id = "secret:d2ldap0000000000000g"
	for name, c := range map[string]struct {
		change map[string]string
		secret map[string]string
		kind   status.Kind
		cause  string
		host   string
	}{
		"ready": {secret: map[string]string{"password": "hunter2"}, host: "ldap:636"},
		"nothing yet": {change: map[string]string{"ldaps_urls": "", "bind_dn": "", "bind_password_secret": ""}, kind: status.Waiting,
			cause: "ldap: glauth has no account for this application yet — run: juju status glauth"},
		"no grant yet": {kind: status.Waiting,
			cause: "ldap: bind_password_secret: the secret can't be read: glauth must correct it, or remove the relation; until then its data is not used — run: juju remove-relation concourse-ci-machine:ldap glauth"},
		"in clear": {change: map[string]string{"ldaps_urls": "[]", "urls": `["ldap://ldap:3893"]`, "starttls": "False"}, secret: map[string]string{"password": "hunter2"},
			kind: status.Active, cause: "ldap: glauth has no TLS, and passwords are sent in clear: it offers neither LDAPS nor StartTLS; switch one on there", host: "ldap:3893"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedWeb(t, map[string]any{"ldap-user-search-username": "mail", "main-team-ldap-group": "admins"})
			l := &model.Relation{App: "glauth", Remote: map[string]string{"ldaps_urls": `["ldaps://ldap"]`, "base_dn": "dc=o", "bind_dn": "cn=ci,dc=o",
				"bind_password_secret": id, "auth_method": "simple", "starttls": "True"}, Secrets: map[string]map[string]string{}}
			maps.Copy(l.Remote, c.change)
			if c.secret != nil {
				l.Secrets[id] = c.secret
			}
			o.Facts.Web.LDAP = l
			d := Desire(o, nil)
			if c.cause == "" {
				require.Empty(t, d.Causes)
			} else {
				require.Len(t, d.Causes, 1)
				require.Equal(t, c.kind, d.Causes[0].Kind)
				require.Equal(t, c.cause, d.Causes[0].String())
			}
			require.True(t, d.Up, "the other ways to log in work")
			env := webEnv(t, d)
			require.Equal(t, c.host, env["CONCOURSE_LDAP_HOST"])
			require.Equal(t, c.secret["password"], env["CONCOURSE_LDAP_BIND_PW"])
			require.Equal(t, "mail", env["CONCOURSE_LDAP_USER_SEARCH_USERNAME"])
			require.Equal(t, "admins", env["CONCOURSE_MAIN_TEAM_LDAP_GROUP"])
		})
	}
}

// Options that refine the search may be set first. Without a server they have no effect.
func TestOptionsOfLDAPWithoutAServerAreAWarning(t *testing.T) {
	o := observedWeb(t, map[string]any{"ldap-user-search-filter": "(objectClass=person)"})
	want := "ldap-user-search-filter has no effect without the relation ldap or ldap-host, ldap-bind-*, ldap-user-search-*"
	require.Equal(t, []status.Cause{{Kind: status.Active, Text: want}}, Desire(o, nil).Causes)
	c, causes := ldapOf(o)
	require.Equal(t, concourse.LDAP{}, c)
	require.Len(t, causes, 1)
}
