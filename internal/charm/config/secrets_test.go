package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	uri  = "secret:d0000000000000000001"
	long = "secret://5a6c5b5e-0c9b-4d3f-8f5a-1d0f6a1b2c3d/d0000000000000000002"
)

func TestSecretOptions(t *testing.T) {
	var names []string
	for _, o := range Options() {
		if o.Secret {
			names = append(names, o.Name)
		}
	}
	require.ElementsMatch(t, []string{"ldap-bind-pw", "oauth-client-secret", "oidc-client-secret", "vault-client-token", "vault-client-key",
		"registry-mirror", "vault-auth-param", "encryption-key", "github-token", "extra-local-users", "http-proxy", "https-proxy"}, names)
}

func TestURIsOfSecretsAreDistinct(t *testing.T) {
	require.Equal(t, []string{long, uri}, SecretURIs(map[string]any{
		"github-token": " " + uri + "\n", "ldap-bind-pw": long, "encryption-key": uri,
		"tag": "secret:d0000000000000000003", "http-proxy": "secret:", "https-proxy": "secret:--help", "vault-client-token": 3, "vault-url": nil,
	}))
	require.Empty(t, SecretURIs(nil))
}

// D34: the text of a Juju secret replaces its URI and is checked like a plain value.
func TestD34SecretReplacesTheURI(t *testing.T) {
	for name, c := range map[string]struct {
		content map[string]string
		want    string
		problem string
	}{
		"the option's name":  {content: map[string]string{"ldap-bind-pw": "a", "value": "b", "other": "c"}, want: "a"},
		"value":              {content: map[string]string{"value": "b", "other": "c"}, want: "b"},
		"the only key":       {content: map[string]string{"password": " c\n"}, want: " c"},
		"neither":            {content: map[string]string{"two": "hunter2", "one": "hunter2"}, problem: "the secret has the keys one, two; want one named ldap-bind-pw or value"},
		"an empty value":     {content: map[string]string{"value": "\n"}, problem: "the key value of the secret is empty"},
		"text of many lines": {content: map[string]string{"value": "hunter2\nCONCOURSE_X=y"}, problem: "the value has a line end or another control character; write one line of text"},
	} {
		raw := full(t)
		raw["ldap-bind-pw"] = uri
		got, problems := Parse(raw, Secrets{uri: {Content: c.content}})
		if c.problem != "" {
			require.Len(t, problems, 1, name)
			require.Equal(t, "ldap-bind-pw: "+c.problem, problems[0].String(), name)
			continue
		}
		require.Empty(t, problems, name)
		require.Equal(t, c.want, got.Web.Env["CONCOURSE_LDAP_BIND_PW"], name)
	}
}

// D34: every secret option takes one; PEM text keeps its lines.
func TestD34EverySecretOptionAcceptsAURI(t *testing.T) {
	cert, key := certificate(t)
	text := map[string]string{"vault-client-key": key, "encryption-key": "0123456789abcdef", "extra-local-users": "ann:x",
		"vault-auth-param": "role_id:x", "registry-mirror": "ci:x@mirror", "http-proxy": "http://a:b@proxy", "https-proxy": "http://a:b@proxy"}
	for _, o := range Options() {
		if !o.Secret {
			continue
		}
		raw := full(t)
		raw["vault-client-cert"] = cert
		if o.Name != "vault-client-key" {
			raw["vault-client-cert"], raw["vault-client-key"] = "", ""
		}
		value := text[o.Name]
		if value == "" {
			value = "hunter2"
		}
		raw[o.Name] = value
		want, problems := Parse(raw, nil)
		require.Empty(t, problems, o.Name)
		raw[o.Name] = long
		require.Equal(t, []string{long}, SecretURIs(raw))
		got, problems := Parse(raw, Secrets{long: {Content: map[string]string{o.Name: value}}})
		require.Empty(t, problems, o.Name)
		require.Equal(t, want, got, o.Name)
	}
}

func TestD34UnreadableSecretIsExplained(t *testing.T) {
	const grant = "); run: juju grant-secret <name> <application>"
	for name, c := range map[string]struct {
		value   string
		secrets Secrets
		want    string
	}{
		"why is known":   {uri, Secrets{uri: {Problem: "permission denied"}}, "cannot read the secret (permission denied" + grant},
		"nobody read it": {uri, Secrets{}, "cannot read the secret (no permission" + grant},
		"there is none":  {uri, Secrets{uri: {}}, "cannot read the secret (it is empty" + grant},
		"no URI":         {"secret:hunter2", Secrets{}, "the value starts with secret: and is not the URI of a secret; write what juju add-secret printed"},
	} {
		_, problems := Parse(map[string]any{"encryption-key": c.value}, c.secrets)
		require.Len(t, problems, 1, name)
		require.Equal(t, "encryption-key: "+c.want, problems[0].String(), name)
	}
}
