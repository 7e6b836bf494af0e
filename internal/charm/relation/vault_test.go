package relation

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	nonce   = "0badcafe0badcafe0badcafe0badcafe"
	vaultID = "secret://f47ac10b-58cc-4372-a567-0e02b2c3d479/d2qv1fvmp25c7bq5v2hg"
	role    = "b2a1d1d0-3a55-7c3e-f3c0-6d6b7f2f3c11"
	roleKey = "7f2f3c11-3a55-7c3e-f3c0-6d6bb2a1d1d0"
)

func vault(t testing.TB) (app map[string]string, secrets map[string]map[string]string) {
	return map[string]string{"vault_url": "https://10.0.0.7:8200", "ca_certificate": caPEM(t), "mount": "charm-web-concourse",
			"credentials": `{"` + nonce + `": "` + vaultID + `", "other": "secret:other"}`},
		map[string]map[string]string{vaultID: {"role-id": role, "role-secret-id": roleKey}, "secret:other": {"role-id": "not", "role-secret-id": "mine"}}
}

func TestVaultIsReadForThisUnit(t *testing.T) {
	app, secrets := vault(t)
	require.Equal(t, vaultID, VaultSecret(app, nonce))
	v, ok, problems := ParseVault(app, nonce, secrets)
	require.Empty(t, problems)
	require.True(t, ok)
	require.Equal(t, Vault{URL: "https://10.0.0.7:8200", CA: caPEM(t), Mount: "charm-web-concourse", RoleID: role, SecretID: roleKey}, v)
	require.Equal(t, map[string]string{
		"CONCOURSE_VAULT_URL":          "https://10.0.0.7:8200",
		"CONCOURSE_VAULT_AUTH_BACKEND": "approle",
		"CONCOURSE_VAULT_AUTH_PARAM":   "role_id:" + role + ",secret_id:" + roleKey,
		"CONCOURSE_VAULT_CA_CERT":      "/x/vault.pem",
		"CONCOURSE_VAULT_PATH_PREFIX":  "/charm-web-concourse",
	}, v.Env("/x/vault.pem"))
}

// D59: the Python charm shared the leader's credentials with all units.
func TestD59EachUnitHasItsCredentials(t *testing.T) {
	app, secrets := vault(t)
	require.Equal(t, "secret:other", VaultSecret(app, "other"))
	v, ok, _ := ParseVault(app, "other", secrets)
	require.True(t, ok)
	require.Equal(t, "not", v.RoleID)

	require.Empty(t, VaultSecret(app, "a third"))
	_, ok, problems := ParseVault(app, "a third", secrets)
	require.False(t, ok)
	require.Empty(t, problems, "its credentials are still to come")
	_, one := VaultRequest("1", nil)
	_, two := VaultRequest("2", nil)
	require.NotEqual(t, one, two)
}

// D59: the CA is missing if the system trusts Vault's certificate.
func TestD59CAIsOptional(t *testing.T) {
	app, secrets := vault(t)
	app["ca_certificate"] = "\n"
	v, ok, problems := ParseVault(app, nonce, secrets)
	require.Empty(t, problems)
	require.True(t, ok)
	require.NotContains(t, v.Env("/x/vault.pem"), "CONCOURSE_VAULT_CA_CERT")
}

// D60: Concourse parts name and value by a colon; the Python charm's pages had
// an equals sign.
func TestD60LoginHasTheFormOfConcourse(t *testing.T) {
	require.Equal(t, "role_id:a,secret_id:b", Vault{RoleID: "a", SecretID: "b"}.Env("")["CONCOURSE_VAULT_AUTH_PARAM"])
}

func TestEgressDoesNotDependOnOrder(t *testing.T) {
	_, a := VaultRequest(nonce, []string{"10.0.0.5/32", "10.0.1.7/24", "fd00::5/128"})
	_, b := VaultRequest(nonce, []string{"fd00::5", "10.0.1.0/24", "10.0.0.5/32", "10.0.0.5"})
	require.Equal(t, a, b)
	require.Equal(t, "10.0.0.5/32,10.0.1.0/24,fd00::5/128", a["egress_subnet"])
	_, none := VaultRequest(nonce, []string{"", "x\ny", "fe80::1%eth0"})
	require.Empty(t, none["egress_subnet"])
}

func TestInvalidVaultIsAProblemWithoutSecrets(t *testing.T) {
	for name, row := range map[string]struct {
		change func(app, secret map[string]string)
		want   string
	}{
		"URL of another kind":       {func(a, _ map[string]string) { a["vault_url"] = "file:///etc/shadow" }, "vault_url: want https://host:port"},
		"no URL":                    {func(a, _ map[string]string) { a["vault_url"] = "10.0.0.7" }, "vault_url: "},
		"URL with a login":          {func(a, _ map[string]string) { a["vault_url"] = "https://u:p@h:8200" }, "vault_url: want https://host:port without user"},
		"URL with a line break":     {func(a, _ map[string]string) { a["vault_url"] = "https://h:8200/\nX=1" }, "vault_url: it is not a URL"},
		"URL with a quote":          {func(a, _ map[string]string) { a["vault_url"] = `https://h:8200/"x` }, "vault_url: it is not a URL"},
		"URL with a zone":           {func(a, _ map[string]string) { a["vault_url"] = "https://[fe80::1%25eth0]:8200" }, "vault_url: "},
		"mount with a line break":   {func(a, _ map[string]string) { a["mount"] = "a\nb" }, "mount: "},
		"mount elsewhere":           {func(a, _ map[string]string) { a["mount"] = "a/../sys" }, "mount: "},
		"CA that is a key":          {func(a, _ map[string]string) { a["ca_certificate"] = fixedKey(t) }, "ca_certificate: it holds more than certificates"},
		"CA that is text":           {func(a, _ map[string]string) { a["ca_certificate"] = "x" }, "ca_certificate: it is not a certificate"},
		"credentials that are text": {func(a, _ map[string]string) { a["credentials"] = "secret:x" }, "credentials: want a JSON object"},
		"credentials in a list":     {func(a, _ map[string]string) { a["credentials"] = `["x"]` }, "credentials: want a JSON object"},
		"an option for an id":       {func(a, _ map[string]string) { a["credentials"] = `{"` + nonce + `": "--file=/x"}` }, "credentials: it is not the id of a secret"},
		"secret that can't be read": {func(a, _ map[string]string) { a["credentials"] = `{"` + nonce + `": "secret:none"}` }, "credentials: the secret of this unit can't be read"},
		"no role":                   {func(_, s map[string]string) { delete(s, "role-id") }, "role-id: the secret lacks it"},
		"no secret id":              {func(_, s map[string]string) { s["role-secret-id"] = "" }, "role-secret-id: the secret lacks it"},
		"secret id with a comma":    {func(_, s map[string]string) { s["role-secret-id"] = roleKey + ",x:y" }, "role-secret-id: it has other characters"},
		"role with a line break":    {func(_, s map[string]string) { s["role-id"] = role + "\nX=1" }, "role-id: it has other characters"},
	} {
		t.Run(name, func(t *testing.T) {
			app, secrets := vault(t)
			row.change(app, secrets[vaultID])
			v, ok, problems := ParseVault(app, nonce, secrets)
			require.False(t, ok)
			require.Zero(t, v)
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], row.want)
			require.NotContains(t, problems[0], roleKey)
			require.NotContains(t, problems[0], "\n")
			_, err := json.Marshal(problems)
			require.NoError(t, err)
		})
	}
}

func TestMissingVaultIsNotAProblem(t *testing.T) {
	for _, key := range []string{"vault_url", "mount", "credentials"} {
		app, secrets := vault(t)
		delete(app, key)
		_, ok, problems := ParseVault(app, nonce, secrets)
		require.False(t, ok, key)
		require.Empty(t, problems, key)
	}
	_, ok, problems := ParseVault(nil, "", nil)
	require.False(t, ok)
	require.Empty(t, problems)
}
