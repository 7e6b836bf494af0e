package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// settings has the options with another value than their default.
type settings map[string]bool

// check finds the problems between options. It also adds notes to the config.
func check(c *Config, options []Option, set settings) []Problem {
	var problems []Problem
	for _, one := range []struct {
		option string
		err    error
	}{
		{"tls-port", tlsPort(c)},
		{"extra-local-users", extraUsers(c)},
		{"default-build-logs-to-retain", retention(c, "default-build-logs-to-retain", "max-build-logs-to-retain")},
		{"default-days-to-retain-build-logs", retention(c, "default-days-to-retain-build-logs",
			"max-days-to-retain-build-logs")},
		{"vault-url", vaultLogin(c, set)},
		{"vault-client-token", vaultToken(set)},
		{"vault-client-key", clientPair(c, set)},
		{"registry-mirror", c.registryDefaults()},
	} {
		if one.err != nil {
			problems = append(problems, Problem{one.option, one.err.Error()})
		}
	}
	if c.Web.Env[envKey("secret-cache-enabled")] == "false" {
		delete(c.Web.Env, envKey("secret-cache-duration"))
		delete(c.Web.Env, envKey("secret-cache-duration-notfound"))
	}
	for _, l := range logins() {
		problems = append(problems, l.check(c, options, set)...)
	}
	if c.Release.AutoUpgrade && c.Release.Version != "" {
		c.Notes = append(c.Notes, "auto-upgrade has no effect while version names one")
	}
	return problems
}

func tlsPort(c *Config) error {
	if c.Web.TLSEnabled && c.Web.TLSPort == c.Web.Port && c.Web.TLSPort != 0 {
		return fmt.Errorf("%d is web-port, too; give one of them another port", c.Web.TLSPort)
	}
	return nil
}

func extraUsers(c *Config) error {
	for i, pair := range pairs(c.Web.ExtraLocalUsers) {
		if name, _, _ := strings.Cut(pair, ":"); name == c.Web.InitialAdminUsername {
			return fmt.Errorf("pair %d has the name of initial-admin-username; the charm makes that user", i+1)
		}
	}
	return nil
}

// retention compares the builds or days that jobs keep by default with the maximum.
func retention(c *Config, standard, most string) error {
	limit, limited := c.Web.Env[envKey(most)]
	kept, _ := strconv.Atoi(c.Web.Env[envKey(standard)]) // 0 if unset: keep the maximum
	if n, _ := strconv.Atoi(limit); limited && kept > n {
		return fmt.Errorf("%d is more than the %d of %s; lower it or raise that", kept, n, most)
	}
	return nil
}

// vaultLogin requires a login for Vault, because Concourse does not start without it. The
// charm has no options for Concourse's other ways to log in to Vault.
func vaultLogin(c *Config, set settings) error {
	byFlag := slices.ContainsFunc(c.Web.ExtraWebFlags, func(f string) bool { return strings.HasPrefix(f, "--vault-") })
	if set["vault-url"] && !set["vault-client-token"] && !set["vault-auth-backend"] && !byFlag {
		return errors.New("Concourse can't log in there; set vault-client-token, or vault-auth-backend and " +
			"vault-auth-param")
	}
	return nil
}

func vaultToken(set settings) error {
	if set["vault-client-token"] && set["vault-auth-backend"] {
		return errors.New("Concourse uses it and ignores vault-auth-backend; reset one of them")
	}
	return nil
}

func clientPair(c *Config, set settings) error {
	if set["vault-client-key"] != set["vault-client-cert"] {
		return errors.New("vault-client-cert and vault-client-key go together; set both or none")
	}
	cert, key := c.Web.Files[envKey("vault-client-cert")], c.Web.Files[envKey("vault-client-key")]
	if cert == "" || key == "" {
		return nil
	}
	if _, err := tls.X509KeyPair([]byte(cert), []byte(key)); err != nil {
		return errors.New("the key does not belong to the first certificate in vault-client-cert")
	}
	return nil
}

// login describes a way to log in that needs all of its options. Concourse ignores an
// incomplete login, or does not start.
type login struct {
	prefix string
	needs  []string
	// server has the options that a relation can provide instead. If none of them is set,
	// the other options extend the relation. nil if no relation provides this login.
	server []string
}

func logins() []login {
	return []login{
		{"ldap-", []string{"ldap-host", "ldap-bind-dn", "ldap-bind-pw", "ldap-user-search-base-dn",
			"ldap-user-search-username"},
			[]string{"ldap-host", "ldap-bind-dn", "ldap-bind-pw"}},
		{"oauth-", []string{"oauth-client-id", "oauth-client-secret", "oauth-auth-url", "oauth-token-url",
			"oauth-userinfo-url"}, nil},
		{"oidc-", []string{"oidc-issuer", "oidc-client-id", "oidc-client-secret"}, nil},
	}
}

// check reports the missing options, at the first option of this login that is set. It
// returns only a note in two cases. Members of the main team that cannot log in do no harm.
// Options that extend a relation may be set before the relation exists.
func (l login) check(c *Config, options []Option, set settings) []Problem {
	var missing []string
	for _, name := range l.needs {
		if !set[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	notes, without, named := &c.Notes, strings.Join(missing, ", "), true
	if l.server != nil {
		notes, without = &c.Web.LDAPNotes, "the relation ldap or ldap-host, ldap-bind-*, ldap-user-search-*"
		named = slices.ContainsFunc(l.server, func(name string) bool { return set[name] })
	}
	for _, o := range options {
		if named && set[o.Name] && strings.HasPrefix(o.Name, l.prefix) {
			return []Problem{{o.Name,
				fmt.Sprintf("incomplete; set %s, or reset it", strings.Join(missing, ", "))}}
		}
	}
	for _, o := range options {
		if set[o.Name] && strings.HasPrefix(strings.TrimPrefix(o.Name, "main-team-"), l.prefix) {
			*notes = append(*notes, fmt.Sprintf("%s has no effect without %s", o.Name, without))
			break
		}
	}
	return nil
}
