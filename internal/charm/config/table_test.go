package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No option exists in one place only, and the generated page has the order of
// the table.
func TestTableEqualsConfigYAML(t *testing.T) {
	options, order := configYAML(t)
	var names []string
	for _, o := range Options() {
		names = append(names, o.Name)
		kind := map[bool]string{true: "string"}
		switch o.Default.(type) {
		case bool:
			kind[true] = "boolean"
		case int:
			kind[true] = "int"
		}
		require.Equal(t, o.Default, options[o.Name].Default, o.Name)
		require.Equal(t, kind[true], options[o.Name].Type, o.Name)
		require.Greater(t, len(options[o.Name].Description), 15, o.Name)
		require.Equal(t, o.Secret, strings.Contains(strings.Join(strings.Fields(options[o.Name].Description), " "), "URI of a Juju secret"), o.Name)
	}
	require.Equal(t, order, names)
}

// A field has the name of its option, without the name of its struct.
func TestFieldsAreNamedAsTheirOptions(t *testing.T) {
	named := map[string]bool{}
	for _, o := range Options() {
		named[strings.ReplaceAll(o.Name, "-", "")] = true
	}
	other := []string{"Notes", "Web.Env", "Web.VaultEnv", "Web.Files", "Web.LDAPNotes", "Worker.NoSrvFolders",
		"Driver.AMDToolkitVersion", "GPU.HSAOverrideAuto"}
	var check func(typ reflect.Type, prefix string)
	check = func(typ reflect.Type, prefix string) {
		for f := range typ.Fields() {
			name := strings.ToLower(f.Name)
			switch {
			case f.Anonymous:
				check(f.Type, prefix)
			case prefix == "" && f.Type.Kind() == reflect.Struct:
				check(f.Type, f.Name)
			case !slices.Contains(other, strings.TrimPrefix(prefix+"."+f.Name, ".")):
				require.True(t, named[name] || named[strings.ToLower(prefix)+name], "%s.%s", prefix, f.Name)
			}
		}
	}
	check(reflect.TypeFor[Config](), "")
}

// full is a configuration in which every option has an effect.
func full(t *testing.T) map[string]any {
	return map[string]any{
		"extra-local-users": "ann:secret-1", "vault-url": "https://vault.example.com:8200", "vault-client-token": "token",
		"ldap-host": "ldap.example.com", "ldap-bind-dn": "cn=reader,dc=example", "ldap-bind-pw": "secret-2",
		"ldap-user-search-base-dn": "ou=people,dc=example", "ldap-user-search-username": "uid",
		"oauth-client-id": "ci", "oauth-client-secret": "secret-3", "oauth-auth-url": "https://login.example.com/auth",
		"oauth-token-url": "https://login.example.com/token", "oauth-userinfo-url": "https://login.example.com/me",
		"oidc-issuer": "https://oidc.example.com", "oidc-client-id": "ci", "oidc-client-secret": "secret-4",
		"vault-client-cert": "/etc/vault/cert.pem", "vault-client-key": "/etc/vault/key.pem", "tls-enabled": true,
	}
}

// fullFor returns full without the options that one option excludes.
func fullFor(t *testing.T, option string) map[string]any {
	raw := full(t)
	if option == "vault-auth-backend" {
		delete(raw, "vault-client-token")
	}
	return raw
}

// samples returns texts of every form that options take. Each option accepts one of them at
// least, so that a new option of a known form needs no row.
func samples(t *testing.T) []any {
	cert, _ := certificate(t)
	return []any{
		"other", cert, publicKey("a"), "bob:secret-9", "0123456789abcdef", strings.Repeat("a", 64), "https://other.example",
		"mirror:5000", "10.0.0.53", "/opt/check", "/{{.Team}}/{{.Secret}}", "(a=b)", "dc=o", "A=b", "1h", "6.4.3",
		"gfx942", "--enable-across-step", "gpu_recovery=1", "rocm,smi", "docker,podman",
		// values of options that are one of a list
		"worker", "lxc", "debug", "random", "all", "rocm", "exclusive", "off", "skip", "never", "dcgm-aliases",
		"anonymous",
	}
}

// another returns the first sample that the option accepts and that is not its value in raw.
func another(t *testing.T, o Option, raw map[string]any) any {
	t.Helper()
	for _, sample := range samples(t) {
		changed := maps.Clone(raw)
		changed[o.Name] = sample
		if _, problems := Parse(changed, nil); len(problems) == 0 && sample != o.Default && sample != raw[o.Name] {
			return sample
		}
	}
	t.Fatalf("%s accepts no sample: add one of its form", o.Name)
	return nil
}

// D29: each option changes the configuration.
func TestD29EveryOptionHasAnEffect(t *testing.T) {
	base, problems := Parse(full(t), nil)
	require.Empty(t, problems)
	require.Empty(t, base.Notes)
	for _, o := range Options() {
		raw := fullFor(t, o.Name)
		switch v := o.Default.(type) {
		case bool:
			raw[o.Name] = !v
			if _, given := full(t)[o.Name]; given {
				raw[o.Name] = v
			}
		case int:
			raw[o.Name] = v + 7
		case string:
			raw[o.Name] = another(t, o, raw)
		}
		c, problems := Parse(raw, nil)
		require.Empty(t, problems, o.Name)
		require.NotEqual(t, base, c, o.Name)
		require.Empty(t, c.Notes, o.Name)
		if o.Env == "" {
			continue
		}
		require.Contains(t, WebEnvKeys(), o.Env)
		_, file := c.Web.Files[o.Env]
		require.True(t, file || c.Web.Env[o.Env] != "" || c.Web.VaultEnv[o.Env] != "" || o.Default == true, o.Name)
	}
}

// D26: the effect of an option ends when its value is removed.
func TestD26EmptyOptionWritesNothing(t *testing.T) {
	standard, problems := Parse(nil, nil)
	require.Empty(t, problems)
	require.Equal(t, map[string]string{"CONCOURSE_CONTAINER_PLACEMENT_STRATEGY": "volume-locality", "CONCOURSE_SECRET_CACHE_ENABLED": "true",
		"CONCOURSE_SECRET_CACHE_DURATION": "5m", "CONCOURSE_SECRET_CACHE_DURATION_NOTFOUND": "1m"}, standard.Web.Env)
	require.Equal(t, map[string]string{"CONCOURSE_VAULT_ENABLE_KV_MOUNT_CACHE": "true"}, standard.Web.VaultEnv)
	require.Empty(t, standard.Web.Files)

	c, problems := Parse(full(t), nil)
	require.Empty(t, problems)
	require.Equal(t, "secret-2", c.Web.Env["CONCOURSE_LDAP_BIND_PW"])
	for key := range c.Web.Env {
		require.Contains(t, WebEnvKeys(), key)
		require.NotContains(t, c.Web.VaultEnv, key)
	}
	for key := range c.Web.VaultEnv {
		require.Contains(t, WebEnvKeys(), key)
	}
	raw := full(t)
	for name := range raw {
		raw[name] = ""
	}
	raw["tls-enabled"] = false
	c, problems = Parse(raw, nil)
	require.Empty(t, problems)
	require.Equal(t, standard, c)

	c, problems = Parse(map[string]any{"container-placement-strategy": "", "secret-cache-duration": "", "secret-cache-duration-notfound": ""}, nil)
	require.Empty(t, problems)
	require.Equal(t, standard.Web.Env, c.Web.Env, "one default, not Concourse's beside it")

	c, problems = Parse(map[string]any{"secret-cache-enabled": false}, nil)
	require.Empty(t, problems)
	require.Equal(t, "false", c.Web.Env["CONCOURSE_SECRET_CACHE_ENABLED"])
	require.NotContains(t, c.Web.Env, "CONCOURSE_SECRET_CACHE_DURATION")
	require.NotContains(t, c.Web.Env, "CONCOURSE_SECRET_CACHE_DURATION_NOTFOUND")
}
