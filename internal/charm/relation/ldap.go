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

// LDAPRequest is the application's bag of ldap (library glauth_k8s ldap v0, requirer): a
// provider that makes an account of its own for each requirer names it by them.
func LDAPRequest(app, model string) map[string]string {
	return map[string]string{"user": app, "group": model}
}

// LDAP is a server that people log in by, and the account that looks them up there.
type LDAP struct {
	Host string // host:port, IPv6 in brackets
	// StartTLS is TLS on the port of LDAP. Without it the port is that of LDAPS, unless
	// passwords are sent in Clear.
	StartTLS, Clear          bool
	BaseDN, BindDN, Password string
}

// LDAPSecret is the id of the secret with the account's password, "" where the provider
// has made none yet.
func LDAPSecret(app map[string]string) string {
	if id := app["bind_password_secret"]; checkSecretID(id) == nil {
		return id
	}
	return ""
}

// ParseLDAP reads what ldap's provider gave: its application's bag, and the content of the
// secret that LDAPSecret names, by id. ok without a server and without problems is a
// provider that has not answered, or has made no account, yet. A problem names the key, and
// has neither a password nor a URL, which may have one.
func ParseLDAP(app map[string]string, secrets map[string]map[string]string) (LDAP, bool, []string) {
	r := reader{secrets: secrets}
	l := LDAP{BaseDN: app["base_dn"], BindDN: app["bind_dn"]}
	if content := r.secret(app, "bind_password_secret"); content != nil {
		if l.Password = (values{content}).get("password"); l.Password == "" {
			r.bad("bind_password_secret", errors.New("the secret lacks the key password"))
		}
		r.bad("password", plainText(l.Password))
	}
	r.bad("base_dn", checkDN(l.BaseDN))
	r.bad("bind_dn", checkDN(l.BindDN))
	if method := app["auth_method"]; method != "" && method != "simple" {
		r.bad("auth_method", fmt.Errorf("%.100q is not simple, the only way that Concourse knows", method))
	}
	starts := strings.ToLower(app["starttls"])
	if !slices.Contains([]string{"", "true", "false"}, starts) {
		r.bad("starttls", errors.New("want True or False"))
	}
	// Concourse takes one server: the first that needs no StartTLS, as its port alone says
	// that nothing is sent in clear.
	for _, key := range []struct{ name, list, scheme string }{{"ldaps_urls", app["ldaps_urls"], "ldaps"}, {"urls", app["urls"], "ldap"}} {
		host, err := ldapHost(key.list, key.scheme)
		r.bad(key.name, err)
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

// ldapHost is host:port of the first URL of a JSON list, "" where there is none.
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
	if err != nil || u.Scheme != scheme || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", bad
	}
	host, port, err := hostPort(u.Host, map[string]int{"ldap": 389, "ldaps": 636}[scheme])
	if err != nil {
		return "", bad
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// checkDN takes what is still to come, too.
func checkDN(s string) error {
	if s != "" && !strings.Contains(s, "=") {
		return errors.New("it is not a DN such as dc=example,dc=com")
	}
	return plainText(s)
}
