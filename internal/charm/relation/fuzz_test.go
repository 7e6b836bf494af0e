package relation

import (
	"encoding/json"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// oneLine checks text for people and values of the environment.
func oneLine(t *testing.T, texts ...string) {
	for _, text := range texts {
		if strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%q has a control character", text)
		}
	}
}

func FuzzParseWorker(f *testing.F) {
	f.Add(line(f, "a"), "gpu-3-0badcafe")
	f.Add(`command="x" `+line(f, "a")+"\n"+line(f, "b"), "../x\n")
	f.Fuzz(func(t *testing.T, key, name string) {
		k, n, problems := ParseWorker(map[string]string{"worker-public-key": key, "worker-name": name})
		oneLine(t, append(problems, k, n)...)
		if k == "" {
			return
		}
		again, _, problems := ParseWorker(WorkerDatabag(k, n, ""))
		if again != k || len(problems) > 0 || strings.Count(k, " ") != 1 {
			t.Errorf("%q is not one key", k)
		}
	})
}

func FuzzParseDatabase(f *testing.F) {
	b := provider()
	f.Add(b.app["endpoints"], b.user["username"], b.user["password"], b.user["uris"], "concourse", "True", caPEM(f))
	f.Add("[fd00::9]:5432,x", "", "", "postgres://u:p%20q@h1,h2/d?x", "", "false", "")
	f.Add("fe80::1%\n:1", "", "p", "postgresql://u@[::1]:0/", "\x00", "x", damaged)
	f.Fuzz(func(t *testing.T, endpoints, user, password, uris, name, tls, ca string) {
		secrets := map[string]map[string]string{userID: {"username": user, "password": password, "uris": uris}, tlsID: {"tls": tls, "tls-ca": ca}}
		db, ok, problems := ParseDatabase(map[string]string{"secret-user": userID, "secret-tls": tlsID, "endpoints": endpoints, "database": name}, nil, secrets)
		oneLine(t, problems...)
		if !ok {
			require.Zero(t, db)
			return
		}
		require.Empty(t, problems)
		oneLine(t, db.Host, db.User, db.Password, db.Name)
		if !isHost(db.Host) || db.Port < 1 || db.Port > 65535 || db.User == "" || db.Password == "" || db.Name == "" {
			t.Errorf("%q:%d %q/%q is no database", db.Host, db.Port, db.User, db.Name)
		}
		if password != "" && db.Password != password {
			t.Errorf("the password became %q", db.Password)
		}
		if db.CA != "" {
			_, err := certificates(db.CA)
			require.NoError(t, err)
		}
	})
}

func FuzzParseVault(f *testing.F) {
	app, secrets := vault(f)
	f.Add(app["vault_url"], app["ca_certificate"], app["mount"], app["credentials"], secrets[vaultID]["role-id"], secrets[vaultID]["role-secret-id"])
	f.Add("https://[fe80::1%25a]/", damaged, "/a/../b", `{"`+nonce+`": 1}`, "a,b", "\n")
	f.Fuzz(func(t *testing.T, url, ca, mount, credentials, role, key string) {
		app := map[string]string{"vault_url": url, "ca_certificate": ca, "mount": mount, "credentials": credentials}
		content := map[string]string{"role-id": role, "role-secret-id": key}
		v, ok, problems := ParseVault(app, nonce, map[string]map[string]string{VaultSecret(app, nonce): content})
		oneLine(t, problems...)
		if id := VaultSecret(app, nonce); strings.HasPrefix(id, "-") || strings.ContainsAny(id, " \n") {
			t.Errorf("%q is no id", id)
		}
		if !ok {
			return
		}
		for _, value := range v.Env("/x") {
			oneLine(t, value)
		}
		if got := strings.Count(v.Env("/x")["CONCOURSE_VAULT_AUTH_PARAM"], ","); got != 1 {
			t.Errorf("%d commas", got)
		}
	})
}

func FuzzParseCertificates(f *testing.F) {
	b := newBed(f)
	f.Add(given(f, b.entry(b.middle.cert, b.root.cert))["certificates"])
	f.Add(`[{"certificate": "x", "chain": null, "revoked": null}, 1]`)
	f.Fuzz(func(t *testing.T, list string) {
		got, ok, problems := ParseCertificates(map[string]string{"certificates": list}, b.csr)
		oneLine(t, problems...)
		if !ok {
			require.Zero(t, got)
			return
		}
		for _, text := range []string{got.Cert, got.CA} {
			certs, err := certificates(text)
			require.NoError(t, err)
			require.Equal(t, text, pemOf(certs...))
		}
		_, err := json.Marshal(got)
		require.NoError(t, err)
	})
}

func FuzzParseRoute(f *testing.F) {
	for _, r := range recordedRoutes(f) {
		f.Add(r.Provider["endpoints"])
	}
	f.Add(`["http://[::1]:80/", "https://u:p@a/\n"]`)
	f.Fuzz(func(t *testing.T, endpoints string) {
		for _, path := range []string{"", "/fleet"} {
			urls, problem := ParseRoute(map[string]string{"endpoints": endpoints}, path)
			if problem != nil {
				oneLine(t, problem.Error())
				require.Empty(t, urls)
			}
			oneLine(t, urls...)
			for _, text := range urls {
				u, err := url.Parse(text)
				require.NoError(t, err)
				if u.Path != path || u.RawQuery+u.Fragment != "" || u.User != nil || !isHost(u.Hostname()) {
					t.Errorf("%q is more or less than a host and %q", text, path)
				}
			}
		}
	})
}

func FuzzParseTracing(f *testing.F) {
	for _, which := range []string{"before", "plain", "tls"} {
		f.Add(recordedTracing(f, which)["receivers"])
	}
	f.Add(`[{"protocol": {"name": "otlp_grpc"}, "url": "http://u:p@[::1]:4317/\n"}]`)
	f.Fuzz(func(t *testing.T, receivers string) {
		r, ok, problem := ParseTracing(map[string]string{"receivers": receivers})
		if problem != nil {
			oneLine(t, problem.Error())
		}
		if !ok {
			require.Zero(t, r.Address)
			return
		}
		require.NoError(t, problem)
		host, port, err := net.SplitHostPort(r.Address)
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		if !isHost(host) || n < 1 || n > 65535 {
			t.Errorf("%q is no address", r.Address)
		}
	})
}

func FuzzParseLDAP(f *testing.F) {
	for _, which := range []string{"ldaps", "starttls", "clear", "no account"} {
		app, secrets := recordedLDAP(f, which)
		f.Add(app["urls"], app["ldaps_urls"], app["starttls"], app["base_dn"], app["bind_dn"], app["auth_method"], app["bind_password_secret"], secrets[LDAPSecret(app)]["password"])
	}
	f.Add(`["ldap://u:p@[::1%25a]:389/\n"]`, `[1]`, "x", "=\n", "\x00=", "sasl", "--help", "\n")
	f.Fuzz(func(t *testing.T, urls, tls, start, base, bind, method, id, password string) {
		app := map[string]string{"urls": urls, "ldaps_urls": tls, "starttls": start, "base_dn": base, "bind_dn": bind, "auth_method": method, "bind_password_secret": id}
		if named := LDAPSecret(app); strings.HasPrefix(named, "-") || strings.ContainsAny(named, " \n") {
			t.Errorf("%q is no id", named)
		}
		l, ok, problems := ParseLDAP(app, map[string]map[string]string{id: {"password": password}})
		oneLine(t, problems...)
		if !ok {
			require.Zero(t, l)
			return
		}
		require.Empty(t, problems)
		oneLine(t, l.BaseDN, l.BindDN, l.Password)
		host, port, err := net.SplitHostPort(l.Host)
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		if !isHost(host) || n < 1 || n > 65535 || l.StartTLS && l.Clear || l.BaseDN == "" || l.BindDN == "" || l.Password == "" {
			t.Errorf("%q %q %q is no server", l.Host, l.BaseDN, l.BindDN)
		}
	})
}

func FuzzParseAuthorities(f *testing.F) {
	for _, which := range []string{"two", "before", "v0"} {
		bags := recordedTransfer(f, which)
		unit := bags.Units["ca/0"]
		f.Add(bags.App["certificates"], unit["ca"], unit["certificate"], unit["chain"])
	}
	f.Add(`["", 1]`, "null", `"`, `{"a": "\n"}`)
	f.Fuzz(func(t *testing.T, certs, ca, certificate, chain string) {
		app := map[string]string{}
		if certs != "" {
			app["certificates"] = certs
		}
		all, problems := ParseAuthorities(app, map[string]map[string]string{"ca/0": {"ca": ca, "certificate": certificate, "chain": chain}})
		oneLine(t, problems...)
		var again []string
		for _, a := range all {
			certs, err := certificates(a.PEM)
			require.NoError(t, err)
			require.Len(t, certs, 1)
			require.True(t, certs[0].IsCA)
			again = append(again, a.PEM)
		}
		if len(all) > 0 {
			same, problems := ParseAuthorities(listOf(t, again...), nil)
			require.Empty(t, problems)
			require.Equal(t, all, same)
		}
	})
}
