package config

import (
	"fmt"
	"strings"
	"text/template"
)

// vaultOptions returns the options for Vault. VaultEnv always has
// vault-enable-kv-mount-cache, because this package does not decide whether Vault is used.
func vaultOptions() []Option {
	return []Option{
		envText(vault, "vault-url", "", as(httpURL)),
		envText(vault, "vault-auth-backend", "", as(word)),
		envText(vault, "vault-auth-backend-max-ttl", "", duration),
		secret(envText(vault, "vault-auth-param", "", authParam)),
		pemText(vault, "vault-ca-cert", certificates),
		pemText(vault, "vault-client-cert", certificates),
		secret(pemText(vault, "vault-client-key", privateKey)),
		secret(envText(vault, "vault-client-token", "", as(token))),
		envText(vault, "vault-lookup-templates", "", templates),
		envText(vault, "vault-namespace", "", as(word)),
		envText(vault, "vault-path-prefix", "", func(s string) (string, error) {
			return "/" + strings.TrimLeft(s, "/"), word(s)
		}),
		envText(vault, "vault-shared-path", "", line),
		envSwitch(vault, "vault-enable-kv-mount-cache", true),
	}
}

// authParam checks name:value pairs. Concourse splits them at commas.
func authParam(s string) (string, error) {
	for i, pair := range pairs(s) {
		name, value, ok := strings.Cut(pair, ":")
		if !ok || value == "" || word(name) != nil || !printable(value) {
			return "", fmt.Errorf("pair %d is not name:value; want pairs with commas between them, such as "+
				"role_id:...,secret_id:...", i+1)
		}
	}
	return s, nil
}

func templates(s string) (string, error) {
	parts, err := list(s, func(part string) error {
		if _, err := template.New("").Parse(part); err != nil || !strings.HasPrefix(part, "/") {
			return fmt.Errorf("%q is not a template such as /{{.Team}}/{{.Secret}}; separate them with commas", part)
		}
		return word(part)
	})
	return strings.Join(parts, ","), err
}
