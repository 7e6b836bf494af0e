package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// ldapOptions returns the options for logins with LDAP.
func ldapOptions() []Option {
	return []Option{
		envText(web, "ldap-display-name", "", line),
		envText(web, "ldap-host", "", as(hostPort)),
		envText(web, "ldap-bind-dn", "", line),
		secret(envText(web, "ldap-bind-pw", "", line)),
		envText(web, "ldap-user-search-base-dn", "", dn),
		envText(web, "ldap-user-search-username", "", as(attribute)),
		envText(web, "ldap-user-search-id-attr", "", as(attribute)),
		envText(web, "ldap-user-search-email-attr", "", as(attribute)),
		envText(web, "ldap-user-search-name-attr", "", as(attribute)),
		envText(web, "ldap-user-search-filter", "", filter),
		envText(web, "ldap-group-search-base-dn", "", dn),
		envText(web, "ldap-group-search-name-attr", "", as(attribute)),
		envText(web, "ldap-group-search-user-attr", "", as(attribute)),
		envText(web, "ldap-group-search-group-attr", "", as(attribute)),
		envText(web, "ldap-group-search-filter", "", filter),
		envText(web, "main-team-ldap-group", "", names),
	}
}

// oauthOptions returns the options for logins with OAuth2.
func oauthOptions() []Option {
	return []Option{
		envText(web, "oauth-display-name", "", line),
		envText(web, "oauth-client-id", "", line),
		secret(envText(web, "oauth-client-secret", "", line)),
		envText(web, "oauth-auth-url", "", as(httpURL)),
		envText(web, "oauth-token-url", "", as(httpURL)),
		envText(web, "oauth-userinfo-url", "", as(httpURL)),
		envText(web, "oauth-scope", "", scopes),
		envText(web, "oauth-groups-key", "", as(word)),
		envText(web, "oauth-user-id-key", "", as(word)),
		envText(web, "oauth-user-name-key", "", as(word)),
		pemText(web, "oauth-ca-cert", certificates),
		envSwitch(web, "oauth-skip-ssl-validation", false),
		envText(web, "main-team-oauth-user", "", names),
		envText(web, "main-team-oauth-group", "", names),
	}
}

// oidcOptions returns the options for logins with OpenID Connect.
func oidcOptions() []Option {
	return []Option{
		envText(web, "oidc-display-name", "", line),
		envText(web, "oidc-issuer", "", as(httpURL)),
		envText(web, "oidc-client-id", "", line),
		secret(envText(web, "oidc-client-secret", "", line)),
		envText(web, "oidc-scope", "", scopes),
		envText(web, "oidc-groups-key", "", as(word)),
		envText(web, "oidc-user-name-key", "", as(word)),
		pemText(web, "oidc-ca-cert", certificates),
		envSwitch(web, "oidc-skip-ssl-validation", false),
		envText(web, "main-team-oidc-user", "", names),
		envText(web, "main-team-oidc-group", "", names),
	}
}

// hostPort checks a host name or an address, with or without a port.
func hostPort(s string) error {
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 {
			host = ""
		} else if host = h; strings.Contains(h, ":") {
			return nil // an IPv6 address in brackets
		}
	}
	if host == "" || word(host) != nil || strings.ContainsAny(host, "/:@?#") {
		return fmt.Errorf("%q is not a host such as ldap.example.com or ldap.example.com:636", withoutPassword(s))
	}
	return nil
}

func dn(s string) (string, error) {
	if !strings.Contains(s, "=") {
		return "", fmt.Errorf("%q is not a DN such as ou=people,dc=example,dc=com", s)
	}
	return line(s)
}

// attributeForm matches names, numbers (RFC 4512) and options after a semicolon.
var attributeForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9;._-]*$`)

func attribute(s string) error {
	if !attributeForm().MatchString(s) {
		return fmt.Errorf("%q is not the name of an attribute such as uid or mail", s)
	}
	return nil
}

// filter checks that the brackets of a filter are balanced. Concourse inserts it into
// another filter, in which a stray bracket would change the meaning.
func filter(s string) (string, error) {
	depth := 0
	for i, c := range s {
		if c == '(' {
			depth++
		} else if c == ')' {
			depth--
		}
		if depth < 0 || depth == 0 && i < len(s)-1 {
			depth = -1
			break
		}
	}
	if depth != 0 {
		return "", fmt.Errorf("%q is not a filter in brackets such as (objectClass=person)", s)
	}
	return line(s)
}

// scopes takes words with commas or white space between them.
func scopes(s string) (string, error) {
	if !printable(strings.ReplaceAll(s, "\t", " ")) {
		return "", errLine
	}
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(", \t", r) }), ","), nil
}
