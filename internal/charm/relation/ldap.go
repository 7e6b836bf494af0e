package relation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// LDAPRequest returns the application's databag of ldap (library glauth_k8s ldap v0,
// requirer). A provider with an account per requirer names the account by user and group.
func LDAPRequest(app, model string) map[string]string {
	return map[string]string{"user": app, "group": model}
}

// LDAP holds the server for logins, and the account that looks up users there.
type LDAP struct {
	Host string // host:port, IPv6 in brackets
	// StartTLS uses TLS on the port of LDAP. Without it the port is LDAPS, unless Clear
	// allows passwords without TLS.
	StartTLS, Clear          bool
	BaseDN, BindDN, Password string
}

// LDAPSecret returns the id of the secret with the account's password, "" if the provider
// has not created it yet.
func LDAPSecret(app map[string]string) string {
	if id := app["bind_password_secret"]; checkSecretID(id) == nil {
		return id
	}
	return ""
}

// ParseLDAP reads the databag of ldap's provider (its application) and the contents of
// secrets by id. LDAPSecret returns the id that it needs. It returns false without problems
// if the provider has not answered, or has not created the account, yet. A problem names
// the key. It quotes neither the password nor a URL, because a URL may contain a password.
func ParseLDAP(app map[string]string, secrets map[string]map[string]string) (LDAP, bool, []string) {
	r := reader{secrets: secrets}
	l := LDAP{BaseDN: app["base_dn"], BindDN: app["bind_dn"]}
	if content := r.secret(app, "bind_password_secret"); content != nil {
		if l.Password = (values{content}).get("password"); l.Password == "" {
			r.addProblem("bind_password_secret", errors.New("the secret lacks the key password"))
		}
		r.addProblem("password", plainText(l.Password))
	}
	r.addProblem("base_dn", checkDN(l.BaseDN))
	r.addProblem("bind_dn", checkDN(l.BindDN))
	if method := app["auth_method"]; method != "" && method != "simple" {
		r.addProblem("auth_method", fmt.Errorf("%.100q is not simple, the only method that Concourse supports", method))
	}
	starts := strings.ToLower(app["starttls"])
	if !slices.Contains([]string{"", "true", "false"}, starts) {
		r.addProblem("starttls", errors.New("want True or False"))
	}
	// Concourse takes one server. LDAPS is preferred: its port alone guarantees that nothing
	// is sent in clear.
	for _, key := range []struct{ name, list, scheme string }{{"ldaps_urls", app["ldaps_urls"], "ldaps"},
		{"urls", app["urls"], "ldap"}} {
		host, err := ldapHost(key.list, key.scheme)
		r.addProblem(key.name, err)
		if host != "" {
			l.Host = host
			l.StartTLS, l.Clear = key.scheme == "ldap" && starts == "true", key.scheme == "ldap" && starts != "true"
			break
		}
	}
	if l.Host == "" || l.BaseDN == "" || l.BindDN == "" || l.Password == "" || len(r.problems) > 0 {
		return LDAP{}, false, r.problems
	}
	return l, true, nil
}

// ldapHost returns host:port of the first URL of a JSON list, "" if the list is empty.
func ldapHost(list, scheme string) (string, error) {
	if list == "" {
		return "", nil
	}
	var all []string
	if len(list) > maxText || json.Unmarshal([]byte(list), &all) != nil {
		return "", errors.New("want a JSON list of URLs")
	}
	if len(all) == 0 {
		return "", nil
	}
	bad := fmt.Errorf("the first URL is not %s://host:port without user, path and query", scheme)
	u, err := url.Parse(all[0])
	if err != nil || u.Scheme != scheme || u.User != nil || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", bad
	}
	host, port, err := hostPort(u.Host, map[string]int{"ldap": 389, "ldaps": 636}[scheme])
	if err != nil {
		return "", bad
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// checkDN accepts an empty DN: the provider may write it later.
func checkDN(s string) error {
	if s != "" && !strings.Contains(s, "=") {
		return errors.New("it is not a DN such as dc=example,dc=com")
	}
	return plainText(s)
}
