package config

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// predecessor lists the options of the Python charm with their types and defaults. A refresh
// of its deployments keeps the values that were set, and unset options get these defaults. The options worker-procs and
// max-concurrent-downloads are missing, because they never had an effect. Juju drops them.
var predecessor = []struct {
	name, kind string
	standard   any
}{
	{"mode", "string", "auto"},
	{"version", "string", ""},
	{"github-token", "string", ""},
	{"shared-storage", "string", "none"},
	{"web-port", "int", 8080},
	{"external-url", "string", ""},
	{"tls-enabled", "boolean", false},
	{"initial-admin-username", "string", "admin"},
	{"log-level", "string", "info"},
	{"enable-metrics", "boolean", false},
	{"container-placement-strategy", "string", "volume-locality"},
	{"containerd-dns-proxy-enable", "boolean", false},
	// Its default was 1.1.1.1,8.8.8.8, to which tasks sent the names of internal hosts.
	{"containerd-dns-server", "string", ""},
	{"compute-runtime", "string", "none"},
	{"gpu-device-ids", "string", "all"},
	{"tag", "string", ""},
	{"vault-url", "string", ""},
	{"vault-auth-backend", "string", ""},
	{"vault-auth-backend-max-ttl", "string", ""},
	{"vault-auth-param", "string", ""},
	{"vault-ca-cert", "string", ""},
	{"vault-client-cert", "string", ""},
	{"vault-client-key", "string", ""},
	{"vault-client-token", "string", ""},
	{"vault-lookup-templates", "string", ""},
	{"vault-namespace", "string", ""},
	{"vault-path-prefix", "string", ""},
	{"vault-shared-path", "string", ""},
	{"vault-enable-kv-mount-cache", "boolean", true},
	{"secret-cache-enabled", "boolean", true},
	{"secret-cache-duration", "string", "5m"},
	{"secret-cache-duration-notfound", "string", "1m"},
	{"encryption-key", "string", ""},
	{"ldap-display-name", "string", ""},
	{"ldap-host", "string", ""},
	{"ldap-bind-dn", "string", ""},
	{"ldap-bind-pw", "string", ""},
	{"ldap-user-search-base-dn", "string", ""},
	{"ldap-user-search-username", "string", ""},
	{"ldap-user-search-id-attr", "string", ""},
	{"ldap-user-search-email-attr", "string", ""},
	{"ldap-user-search-name-attr", "string", ""},
	{"ldap-user-search-filter", "string", ""},
	{"ldap-group-search-base-dn", "string", ""},
	{"ldap-group-search-name-attr", "string", ""},
	{"ldap-group-search-user-attr", "string", ""},
	{"ldap-group-search-group-attr", "string", ""},
	{"ldap-group-search-filter", "string", ""},
	{"main-team-ldap-group", "string", ""},
	{"main-team-local-user", "string", ""},
	{"oauth-display-name", "string", ""},
	{"oauth-client-id", "string", ""},
	{"oauth-client-secret", "string", ""},
	{"oauth-auth-url", "string", ""},
	{"oauth-token-url", "string", ""},
	{"oauth-userinfo-url", "string", ""},
	{"oauth-scope", "string", ""},
	{"oauth-groups-key", "string", ""},
	{"oauth-user-id-key", "string", ""},
	{"oauth-user-name-key", "string", ""},
	{"oauth-ca-cert", "string", ""},
	{"oauth-skip-ssl-validation", "boolean", false},
	{"main-team-oauth-user", "string", ""},
	{"main-team-oauth-group", "string", ""},
	{"oidc-display-name", "string", ""},
	{"oidc-issuer", "string", ""},
	{"oidc-client-id", "string", ""},
	{"oidc-client-secret", "string", ""},
	{"oidc-scope", "string", ""},
	{"oidc-groups-key", "string", ""},
	{"oidc-user-name-key", "string", ""},
	{"oidc-ca-cert", "string", ""},
	{"oidc-skip-ssl-validation", "boolean", false},
	{"main-team-oidc-user", "string", ""},
	{"main-team-oidc-group", "string", ""},
	{"extra-web-flags", "string", ""},
	{"default-build-logs-to-retain", "int", 0},
	{"default-days-to-retain-build-logs", "int", 0},
	{"max-build-logs-to-retain", "int", 0},
	{"max-days-to-retain-build-logs", "int", 0},
	{"gc-failed-grace-period", "string", ""},
	{"extra-local-users", "string", ""},
	{"http-proxy", "string", ""},
	{"https-proxy", "string", ""},
	{"no-proxy", "string", ""},
}

type yamlOption struct {
	Type        string
	Default     any
	Description string
}

// configYAML reads the options of config.yaml and their order.
func configYAML(t *testing.T) (options map[string]yamlOption, order []string) {
	t.Helper()
	data, err := os.ReadFile("../../../config.yaml")
	require.NoError(t, err)
	var file struct{ Options yaml.Node }
	require.NoError(t, yaml.Unmarshal(data, &file))
	require.NoError(t, file.Options.Decode(&options))
	for i := 0; i < len(file.Options.Content); i += 2 {
		order = append(order, file.Options.Content[i].Value)
	}
	return options, order
}

func TestOptionsOfThePredecessorKeepTypeAndDefault(t *testing.T) {
	options, _ := configYAML(t)
	require.Len(t, predecessor, 85)
	for _, p := range predecessor {
		o, ok := options[p.name]
		require.True(t, ok, p.name)
		require.Equal(t, p.kind, o.Type, p.name)
		require.Equal(t, p.standard, o.Default, p.name)
	}
}

func TestDefaultsOfThePredecessorAreValid(t *testing.T) {
	raw := map[string]any{}
	for _, p := range predecessor {
		raw[p.name] = p.standard
		if n, ok := p.standard.(int); ok {
			raw[p.name] = float64(n) // as JSON has it
		}
	}
	c, problems := Parse(raw, nil)
	require.Empty(t, problems)
	standard, problems := Parse(nil, nil)
	require.Empty(t, problems)
	require.Equal(t, standard, c)
}
