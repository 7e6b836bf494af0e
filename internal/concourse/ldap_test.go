package concourse

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The relation gives the server and the user, options give the search.
func TestLDAPOfTheRelationWinsAndTheSearchIsTheOperatorsToChange(t *testing.T) {
	options := map[string]string{"CONCOURSE_LDAP_HOST": "old:636", "CONCOURSE_LDAP_BIND_DN": "cn=old", "CONCOURSE_LDAP_BIND_PW": "old pass",
		"CONCOURSE_LDAP_USER_SEARCH_BASE_DN": "ou=people,dc=o", "CONCOURSE_LDAP_GROUP_SEARCH_GROUP_ATTR": "member", "CONCOURSE_LDAP_DISPLAY_NAME": "Ours"}
	c := WebConfig{Options: options, LDAP: LDAP{Host: "ldap:389", StartTLS: true, BaseDN: "dc=o", BindDN: "cn=ci", Password: "new pass"}}
	env := c.Env()
	for key, want := range map[string]string{
		"CONCOURSE_LDAP_HOST": "ldap:389", "CONCOURSE_LDAP_BIND_DN": "cn=ci", "CONCOURSE_LDAP_BIND_PW": "new pass",
		"CONCOURSE_LDAP_START_TLS": "true", "CONCOURSE_LDAP_INSECURE_NO_SSL": "false", "CONCOURSE_LDAP_DISPLAY_NAME": "Ours",
		"CONCOURSE_LDAP_USER_SEARCH_BASE_DN": "ou=people,dc=o", "CONCOURSE_LDAP_USER_SEARCH_USERNAME": "uid",
		"CONCOURSE_LDAP_USER_SEARCH_ID_ATTR": "uid", "CONCOURSE_LDAP_USER_SEARCH_EMAIL_ATTR": "mail", "CONCOURSE_LDAP_USER_SEARCH_NAME_ATTR": "uid",
		"CONCOURSE_LDAP_GROUP_SEARCH_BASE_DN": "dc=o", "CONCOURSE_LDAP_GROUP_SEARCH_USER_ATTR": "uid",
		"CONCOURSE_LDAP_GROUP_SEARCH_GROUP_ATTR": "member", "CONCOURSE_LDAP_GROUP_SEARCH_NAME_ATTR": "cn",
	} {
		require.Equal(t, want, env[key], key)
	}
	c.LDAP = LDAP{}
	env = c.Env()
	for key, want := range options {
		require.Equal(t, want, env[key], key)
	}
	require.Equal(t, "uid", env["CONCOURSE_LDAP_USER_SEARCH_ID_ATTR"], "nobody can log in without one")
	require.Equal(t, "mail", env["CONCOURSE_LDAP_USER_SEARCH_EMAIL_ATTR"])
	c.Options = map[string]string{"CONCOURSE_LDAP_USER_SEARCH_ID_ATTR": "entryUUID"}
	require.NotContains(t, c.Env(), "CONCOURSE_LDAP_USER_SEARCH_EMAIL_ATTR", "no server")
	for _, key := range []string{"CONCOURSE_LDAP_START_TLS", "CONCOURSE_LDAP_INSECURE_NO_SSL", "CONCOURSE_LDAP_USER_SEARCH_USERNAME"} {
		require.NotContains(t, env, key)
	}
}

// If options name a server, the file has their way to speak to it. That stays,
// and what the relation wrote there goes with it.
func TestHowLDAPIsSpokenIsTheOperatorsWithoutTheRelation(t *testing.T) {
	own := []byte("CONCOURSE_LDAP_CA_CERT=/etc/ldap.pem\nCONCOURSE_LDAP_START_TLS=true\n")
	file := func(c WebConfig, existing []byte) []byte {
		f, err := c.File(existing)
		require.NoError(t, err)
		return f.Data
	}
	require.Contains(t, string(file(WebConfig{}, own)), string(own))
	related := WebConfig{LDAP: LDAP{Host: "ldap:636", BaseDN: "dc=o", BindDN: "cn=ci", Password: "p"}}
	require.Equal(t, []string{"CONCOURSE_LDAP_INSECURE_NO_SSL", "CONCOURSE_LDAP_START_TLS"}, related.ToNote())
	with := file(related, own)
	require.Equal(t, "false", EnvValues(with)["CONCOURSE_LDAP_START_TLS"])
	after := string(file(WebConfig{Noted: related.ToNote()}, with))
	require.NotContains(t, after, "START_TLS")
	require.NotContains(t, after, "NO_SSL")
	require.Contains(t, after, "CONCOURSE_LDAP_CA_CERT=/etc/ldap.pem\n")
}
