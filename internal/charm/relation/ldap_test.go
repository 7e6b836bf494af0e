package relation

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recordedLDAP has the databag that the provider's library wrote, and its secret.
func recordedLDAP(t testing.TB, which string) (app map[string]string, secrets map[string]map[string]string) {
	t.Helper()
	data, err := os.ReadFile("testdata/ldap.json")
	require.NoError(t, err)
	var recorded map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &recorded))
	require.NoError(t, json.Unmarshal(recorded[which], &app), which)
	if content, ok := recorded[which+" secret"]; ok {
		var secret map[string]string
		require.NoError(t, json.Unmarshal(content, &secret), which)
		secrets = map[string]map[string]string{app["bind_password_secret"]: secret}
	}
	return app, secrets
}

func TestLDAPRequestMatchesTheLibrary(t *testing.T) {
	want, _ := recordedLDAP(t, "requirer")
	require.Equal(t, want, LDAPRequest("web", "ci"))
}

func TestLDAPPrefersTheFirstServerWithTLS(t *testing.T) {
	for which, want := range map[string]LDAP{
		"ldaps":    {Host: "ldap.example.com:636"},
		"both":     {Host: "ldap.example.com:636"},
		"starttls": {Host: "ldap.example.com:389", StartTLS: true},
		"clear":    {Host: "10.0.0.7:3893", Clear: true},
	} {
		app, secrets := recordedLDAP(t, which)
		want.BaseDN, want.BindDN, want.Password = "dc=example,dc=com", "cn=ci,ou=services,dc=example,dc=com", "bind passw0rd"
		got, ok, problems := ParseLDAP(app, secrets)
		require.Empty(t, problems, which)
		require.True(t, ok, which)
		require.Equal(t, want, got, which)
	}
}

func TestLDAPWithoutAnAccountIsNotReady(t *testing.T) {
	for _, which := range []string{"", "no account"} {
		app := map[string]string{}
		if which != "" {
			app, _ = recordedLDAP(t, which)
		}
		require.Empty(t, LDAPSecret(app))
		got, ok, problems := ParseLDAP(app, nil)
		require.Empty(t, problems, which)
		require.False(t, ok, which)
		require.Zero(t, got, which)
	}
	// The provider writes its keys one after another.
	for _, keys := range [][]string{{"base_dn"}, {"bind_dn"}, {"bind_password_secret"}, {"urls", "ldaps_urls"}} {
		app, secrets := recordedLDAP(t, "ldaps")
		_, ok, _ := ParseLDAP(app, secrets)
		require.True(t, ok)
		for _, key := range keys {
			delete(app, key)
		}
		_, ok, problems := ParseLDAP(app, secrets)
		require.False(t, ok, keys)
		require.Empty(t, problems, keys)
	}
}

func TestLDAPProblemsNameTheKeyAndNoSecret(t *testing.T) {
	const url = "urls: the first URL is not ldap://host:port without user, path and query"
	for _, c := range []struct{ key, value, want string }{
		{"urls", `["ldap://[fd00::9]"]`, ""},
		{"urls", `["ldap://ldap.example.com/"]`, ""},
		{"urls", `["ldaps://ldap.example.com"]`, url},
		{"urls", `["ldap://reader:hunter2@ldap.example.com"]`, url},
		{"urls", `["ldap://ldap.example.com/dc=example"]`, url},
		{"urls", `["ldap://ldap.example.com:99999"]`, url},
		{"urls", `["ldap://ldap example"]`, url},
		{"urls", `["ldap:ldap.example.com"]`, url},
		{"urls", `["ldap.example.com"]`, url},
		{"urls", `["\n"]`, url},
		{"urls", `"ldap://ldap.example.com"`, "urls: want a JSON list of URLs"},
		{"urls", strings.Repeat(" ", 5000) + "[]", "urls: want a JSON list of URLs"},
		{"ldaps_urls", `["ldap://ldap.example.com"]`, "ldaps_urls: the first URL is not ldaps://host:port without user, path and query"},
		{"starttls", "yes", "starttls: want True or False"},
		{"base_dn", "example.com", "base_dn: it is not a DN such as dc=example,dc=com"},
		{"bind_dn", "cn=a\nCONCOURSE_ADD_LOCAL_USER=me:me", "bind_dn: it has a line break or another control character"},
		{"auth_method", "sasl", `auth_method: "sasl" is not simple, the only method that Concourse supports`},
		{"bind_password_secret", "--help", "bind_password_secret: it is not the id of a secret (secret:...)"},
		{"bind_password_secret", "secret:other", "bind_password_secret: the secret can't be read"},
		{"password", "", "bind_password_secret: the secret lacks the key password"},
		{"password", "hunter2\n", "password: it has a line break or another control character"},
	} {
		app, secrets := recordedLDAP(t, "starttls")
		if c.key == "password" {
			secrets = map[string]map[string]string{LDAPSecret(app): {"password": c.value, "other": "hunter2"}}
		} else {
			app = maps.Clone(app)
			app[c.key] = c.value
		}
		got, ok, problems := ParseLDAP(app, secrets)
		if c.want == "" {
			require.True(t, ok, "%s %q: %v", c.key, c.value, problems)
			continue
		}
		require.Equal(t, []string{c.want}, problems, c.value)
		require.False(t, ok)
		require.Zero(t, got)
	}
	for value, want := range map[string]string{"": "", "-x": "", "secret:abc": "secret:abc"} {
		require.Equal(t, want, LDAPSecret(map[string]string{"bind_password_secret": value}))
	}
}

// A library of before LDAPS wrote nothing for False.
func TestLDAPOfAnOlderLibraryIsRead(t *testing.T) {
	app, secrets := recordedLDAP(t, "clear")
	delete(app, "ldaps_urls")
	app["starttls"] = ""
	got, ok, problems := ParseLDAP(app, secrets)
	require.Empty(t, problems)
	require.True(t, ok)
	require.True(t, got.Clear)
}
