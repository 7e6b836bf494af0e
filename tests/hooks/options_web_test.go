package hooks

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// authority is the provider's side of a certificates relation.
type authority struct {
	t    *testing.T
	key  *rsa.PrivateKey
	cert *x509.Certificate
	pem  string
	n    int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	block, _ := pem.Decode(keys("authority"))
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	require.NoError(t, err)
	a := &authority{t: t, key: key, cert: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	require.NoError(t, err)
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

// sign answers the request in a unit's bag.
func (a *authority) sign(r *jujutest.Relation) (names []string) {
	a.t.Helper()
	var requests []struct {
		Request string `json:"certificate_signing_request"`
	}
	require.NoError(a.t, json.Unmarshal([]byte(r.Local["certificate_signing_requests"]), &requests))
	require.Len(a.t, requests, 1)
	block, _ := pem.Decode([]byte(requests[0].Request))
	req, err := x509.ParseCertificateRequest(block.Bytes)
	require.NoError(a.t, err)
	require.NoError(a.t, req.CheckSignature())
	a.n++
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1 + a.n), Subject: req.Subject, DNSNames: req.DNSNames, IPAddresses: req.IPAddresses,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Duration(a.n) * time.Hour)}, a.cert, req.PublicKey, a.key)
	require.NoError(a.t, err)
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	data, err := json.Marshal([]map[string]any{{"certificate": cert, "certificate_signing_request": requests[0].Request, "ca": a.pem, "chain": []string{cert, a.pem}}})
	require.NoError(a.t, err)
	r.AppData["certificates"] = string(data)
	for _, ip := range req.IPAddresses {
		names = append(names, ip.String())
	}
	return append(names, req.DNSNames...)
}

// D29, D40: tls-enabled was an option that nothing read.
func TestD29D40TLSWithACertificateOfTheRelation(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 1, options{"mode": "web", "tls-enabled": true}).giveWebKeys()
	u := c.units[0]
	c.begin()
	require.Contains(t, c.status(0), "tls-enabled: a certificate is missing; ")
	ca := newAuthority(t)
	r := u.Model.Relate(12, "certificates", "ca")
	r.Units = map[string]map[string]string{"ca/0": {}}
	c.relation(0, "certificates", "joined", "ca/0")
	request := r.Local["certificate_signing_requests"]
	require.Contains(t, c.status(0), "Waiting for the certificate of ca")
	require.Contains(t, c.status(0), "PostgreSQL database required")
	// The same request in every hook, though the web can't run yet.
	c.idle()
	c.hook(0, "config-changed")
	require.Equal(t, request, r.Local["certificate_signing_requests"])
	c.database()
	c.hook(0, "update-status")
	require.Equal(t, "waiting: Waiting for the certificate of ca", c.status(0))
	require.Equal(t, webUp, c.up(0))
	require.NotContains(t, u.read(webEnvFile), "TLS")
	require.Equal(t, request, r.Local["certificate_signing_requests"])

	require.Equal(t, []string{"10.0.0.10"}, ca.sign(r))
	res := c.relation(0, "certificates", "changed", "ca/0")
	require.Equal(t, []string{"systemctl restart concourse-server.service"}, res.Commands)
	require.Equal(t, "active: Web server ready (v8.2.5) https://10.0.0.10:8443", c.status(0))
	env := u.read(webEnvFile)
	for _, want := range []string{"CONCOURSE_TLS_BIND_PORT=8443\n", "CONCOURSE_TLS_CERT=/var/lib/concourse/keys/tls.crt\n", "CONCOURSE_TLS_KEY=/var/lib/concourse/keys/tls.key\n",
		"CONCOURSE_EXTERNAL_URL=https://10.0.0.10:8443\n"} {
		require.Contains(t, env, want)
	}
	key, first := u.read("/var/lib/concourse/keys/tls.key"), u.read("/var/lib/concourse/keys/tls.crt")
	info, err := u.Root.Stat("/var/lib/concourse/keys/tls.key")
	require.NoError(t, err)
	require.Equal(t, "-rw-------", info.Mode().String())
	require.Len(t, u.Model.Ports, 2)
	c.idle()

	// Renewed: the same key, one restart.
	ca.sign(r)
	res = c.relation(0, "certificates", "changed", "ca/0")
	require.Equal(t, []string{"systemctl restart concourse-server.service"}, res.Commands)
	require.NotEqual(t, first, u.read("/var/lib/concourse/keys/tls.crt"))
	require.Equal(t, key, u.read("/var/lib/concourse/keys/tls.key"))
	c.idle()

	// Another name: another request; until it is answered the web is plain.
	u.set(options{"external-url": "https://ci.example.org"})
	c.hook(0, "config-changed")
	require.NotEqual(t, request, r.Local["certificate_signing_requests"])
	require.ElementsMatch(t, []string{"10.0.0.10", "ci.example.org"}, ca.sign(r))
	c.relation(0, "certificates", "changed", "ca/0")
	require.Equal(t, "active: Web server ready (v8.2.5) https://ci.example.org", c.status(0))
	c.idle()

	u.set(options{"tls-enabled": false, "external-url": ""})
	c.hook(0, "config-changed")
	require.NotContains(t, u.read(webEnvFile), "TLS_")
	require.Equal(t, "active: Web server ready (v8.2.5) "+url(u), c.status(0))
	require.Len(t, u.Model.Ports, 1)
	u.keeps(password)
	c.idle()
}

// A unit that Juju gave no address yet has nothing to ask a certificate for.
func TestTLSWithoutAnAddressWaits(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 1, options{"mode": "web", "tls-enabled": true}).giveWebKeys()
	c.units[0].Model.Address = ""
	c.hook(0, "install")
	require.Contains(t, c.units[0].refused("check-status", nil), "Waiting for this unit's address: Juju has none yet")
}

// D59, D60: each unit has its own credentials; a relation wins over options, of
// which the prefix still counts.
func TestD59D60VaultByRelation(t *testing.T) {
	t.Parallel()
	c := webs(t, 2, options{"vault-url": "https://old.example.org:8200", "vault-client-token": "s.token"})
	require.Contains(t, c.units[0].read(webEnvFile), "CONCOURSE_VAULT_URL=https://old.example.org:8200\n")
	ca := newAuthority(t)
	const first, second = "d2vault000000000000g", "d2vault000000000001g"
	nonces := map[string]bool{}
	for k, u := range c.units {
		r := u.Model.Relate(13, "vault-kv", "vault")
		r.Units = map[string]map[string]string{"vault/0": {}}
		c.relation(k, "vault-kv", "joined", "vault/0")
		require.Regexp(t, `^[0-9a-f]{32}$`, r.Local["nonce"])
		nonces[r.Local["nonce"]] = true
		require.Equal(t, u.Model.Address+"/32", r.Local["egress_subnet"])
		if k == 0 {
			require.Equal(t, "concourse", r.LocalApp["mount_suffix"])
		} else {
			require.Empty(t, r.LocalApp, "the leader's to write")
		}
		require.Contains(t, c.status(k), "vault-kv: no credentials for this unit yet")
	}
	require.Len(t, nonces, 2)
	for k, u := range c.units {
		r := relationOf(u, "vault-kv")
		id := []string{first, second}[k]
		credentials, err := json.Marshal(map[string]string{r.Local["nonce"]: "secret:" + id, "another": "secret:d2vault000000000009g"})
		require.NoError(t, err)
		r.AppData = map[string]string{"vault_url": "https://vault.example.org:8200", "mount": "charm-ci-concourse", "ca_certificate": ca.pem, "credentials": string(credentials)}
		u.Model.Secrets = append(u.Model.Secrets, &jujutest.Secret{ID: id, Owner: "vault", Granted: true,
			Revisions: []map[string]string{{"role-id": "role-" + id, "role-secret-id": "hidden-" + id}}})
		res := c.relation(k, "vault-kv", "changed", "vault/0")
		require.Equal(t, []string{"systemctl restart concourse-server.service"}, res.Commands)
		env := u.read(webEnvFile)
		for _, want := range []string{"CONCOURSE_VAULT_URL=https://vault.example.org:8200\n", "CONCOURSE_VAULT_AUTH_BACKEND=approle\n", "CONCOURSE_VAULT_PATH_PREFIX=/charm-ci-concourse\n",
			"role_id:role-" + id + ",secret_id:hidden-" + id, "CONCOURSE_VAULT_CA_CERT=/var/lib/concourse/keys/vault-ca.pem\n"} {
			require.Contains(t, env, want)
		}
		require.NotContains(t, env, "s.token")
		require.Equal(t, "active: Web server ready (v8.2.5) "+url(u), c.status(k))
	}
	c.idle()
	u := c.units[1]
	s := u.secret(second)
	s.Revisions = append(s.Revisions, map[string]string{"role-id": "role-" + second, "role-secret-id": "rotated"})
	require.Equal(t, []string{"systemctl restart concourse-server.service"}, u.secretChanged("secret:"+second).Commands)
	require.Contains(t, u.read(webEnvFile), "secret_id:rotated")
	for _, u := range c.units {
		u.set(options{"vault-path-prefix": "mine"})
	}
	c.hook(0, "config-changed")
	require.Contains(t, c.units[0].read(webEnvFile), "CONCOURSE_VAULT_PATH_PREFIX=/mine\n")
	c.relation(0, "vault-kv", "broken")
	u = c.units[0]
	for i, r := range u.Model.Relations {
		if r.Endpoint == "vault-kv" {
			u.Model.Relations = append(u.Model.Relations[:i], u.Model.Relations[i+1:]...)
			break
		}
	}
	env := u.read(webEnvFile)
	require.Contains(t, env, "CONCOURSE_VAULT_URL=https://old.example.org:8200\n", "the options count again")
	require.Contains(t, env, "CONCOURSE_VAULT_CLIENT_TOKEN=s.token\n")
	require.NotContains(t, env, "approle")
	require.Empty(t, u.holding("hidden-"+first))
	for _, u := range c.units {
		u.keeps("hidden-"+first, "hidden-"+second, "rotated", "s.token")
	}
}

// D29: with another key the old one is reported as well, so that what was encrypted with it
// can be read; all webs get both from the leader's secret.
func TestD29EncryptionKeyChangesWithTheOldOneKept(t *testing.T) {
	t.Parallel()
	const a, b = "0123456789abcdef", "fedcba9876543210"
	c := webs(t, 2, options{"encryption-key": a})
	n := networkOf(c)
	n.settle()
	for _, u := range c.units {
		require.Contains(t, u.read(webEnvFile), "CONCOURSE_ENCRYPTION_KEY="+a+"\n")
		require.NotContains(t, u.read(webEnvFile), "OLD_ENCRYPTION")
		u.set(options{"encryption-key": b})
	}
	require.Empty(t, c.hook(1, "config-changed").Commands, "the leader says when")
	c.hook(0, "config-changed")
	n.shareAll()
	require.Equal(t, []string{"ci/1 systemctl restart concourse-server.service"}, n.settle())
	for _, u := range c.units {
		require.Contains(t, u.read(webEnvFile), "CONCOURSE_ENCRYPTION_KEY="+b+"\n")
		require.Contains(t, u.read(webEnvFile), "CONCOURSE_OLD_ENCRYPTION_KEY="+a+"\n")
		u.keeps(a, b)
	}
	c.idle()
}

// D28: flags stand in the unit as systemd reads them back.
func TestD28ExtraWebFlagsAreEscaped(t *testing.T) {
	t.Parallel()
	c := webs(t, 1, options{"extra-web-flags": `--default-get-timeout=1h --api-max-conns=10 --system-claim-value=50%h$HOME`})
	u := c.units[0]
	require.Contains(t, u.read("/etc/systemd/system/concourse-server.service"),
		`ExecStart=/opt/concourse-ci-machine/release/bin/concourse web "--default-get-timeout=1h" "--api-max-conns=10" "--system-claim-value=50%%h$$HOME"`+"\n")
	u.set(options{"extra-web-flags": "", "no-proxy": "a b"})
	r := c.hook(0, "config-changed")
	if r.Status().Status == "blocked" { // a wrong option beside it holds it up
		u.set(options{"no-proxy": ""})
		r = c.hook(0, "config-changed")
	}
	require.Equal(t, []string{"systemctl daemon-reload", "systemctl restart concourse-server.service"}, r.Commands)
	require.True(t, strings.HasSuffix(strings.TrimSpace(lineOf(u.read("/etc/systemd/system/concourse-server.service"), "ExecStart=")), "concourse web"))
	c.idle()
}

func lineOf(text, prefix string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return ""
}

// D55, D57: metrics are advertised at their address, with the web's own port and user, and
// removed when they are turned off.
func TestD55D57MetricsOfAWebComeAndGo(t *testing.T) {
	t.Parallel()
	c := webs(t, 2, options{"enable-metrics": true, "initial-admin-username": "root"})
	const layer, credentials = "/var/lib/concourse-ci-machine/pebble/layers/002-concourse-exporter.yaml", "/etc/concourse-ci-machine/concourse-exporter.json"
	const fleet = "/etc/concourse-ci-machine/fleet.json"
	c.units[0].Model.Relate(9, "catalogue", "catalogue").Units = map[string]map[string]string{"catalogue/0": {}}
	for k, u := range c.units {
		u.Model.Relate(8, "monitoring", "prometheus").Units = map[string]map[string]string{"prometheus/0": {}}
		c.relation(k, "monitoring", "joined", "prometheus/0")
		info, err := u.Root.Stat(credentials)
		require.NoError(t, err)
		require.Equal(t, "-rw-------", info.Mode().String())
		var is struct{ URL, Username, Password string }
		require.NoError(t, json.Unmarshal([]byte(u.read(credentials)), &is))
		require.Equal(t, "root", is.Username)
		require.Equal(t, password, is.Password)
		require.Equal(t, "http://127.0.0.1:"+strings.TrimSpace(url(u)[strings.LastIndex(url(u), ":")+1:]), is.URL)
		require.Contains(t, u.read(layer), credentials)
		require.NotContains(t, u.read(layer), password)
		require.Contains(t, u.read(webEnvFile), "CONCOURSE_PROMETHEUS_BIND_PORT=9391\n")
		require.Equal(t, u.Model.Address, relationOf(u, "monitoring").Local["prometheus_scrape_unit_address"])
		require.True(t, u.Machine.Up("concourse-pebble.service"))
		require.Contains(t, u.read(fleet), `"http://127.0.0.1:9391/metrics"`)
		require.NotContains(t, u.read(fleet), password)
		u.keeps(password)
	}
	require.Equal(t, "http://"+c.units[0].Model.Address+":9358/", relationOf(c.units[0], "catalogue").LocalApp["url"])
	jobs := relationOf(c.units[0], "monitoring").LocalApp["scrape_jobs"]
	require.Contains(t, jobs, `"*:9391"`)
	require.Contains(t, jobs, `"*:9358"`)
	require.NotContains(t, jobs, "9401")
	c.units[0].done("rotate-keys", map[string]any{"keys": "admin-password"})
	require.NotContains(t, c.units[0].read(credentials), password)
	for k, u := range c.units {
		u.set(options{"enable-metrics": false})
		c.hook(k, "config-changed")
		for _, path := range []string{layer, credentials, fleet} {
			require.False(t, u.Root.Exists(path), path)
		}
		require.False(t, u.Machine.Up("concourse-pebble.service"))
		require.NotContains(t, u.read(webEnvFile), "PROMETHEUS")
		require.NotContains(t, relationOf(u, "monitoring").Local, "prometheus_scrape_unit_address")
	}
	require.NotContains(t, relationOf(c.units[0], "monitoring").LocalApp["scrape_jobs"], "9391")
	require.Empty(t, relationOf(c.units[0], "catalogue").LocalApp)
	c.idle()
}

// D55: with mode=auto only the leader has these metrics, wherever it is.
func TestD55MetricsOfModeAutoFollowTheLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, options{"mode": "auto", "enable-metrics": true, "task-record-size": 0}).giveWebKeys()
	n := networkOf(c)
	for _, u := range c.units {
		u.Model.Relate(8, "monitoring", "prometheus").Units = map[string]map[string]string{"prometheus/0": {}}
	}
	c.begin()
	c.database()
	c.hook(0, "update-status")
	n.settle()
	jobs := func(k int) string { return relationOf(c.units[k], "monitoring").LocalApp["scrape_jobs"] }
	require.Contains(t, jobs(0), `"10.0.0.10:9391"`)
	require.Contains(t, jobs(0), `"10.0.0.10:9358"`)
	require.NotContains(t, jobs(0), "*")
	const fleet = "/etc/concourse-ci-machine/fleet.json"
	require.Contains(t, c.units[0].read(fleet), c.units[1].Model.Unit)
	require.False(t, c.units[1].Root.Exists(fleet))
	require.NotContains(t, relationOf(c.units[1], "monitoring").Local, "prometheus_scrape_unit_address")
	c.units[0].Model.Leader, c.units[1].Model.Leader = false, true
	relationOf(c.units[1], "monitoring").LocalApp = map[string]string{"scrape_jobs": jobs(0)}
	c.hook(1, "leader-elected")
	n.settle()
	require.Contains(t, jobs(1), `"10.0.0.11:9391"`)
	require.NotContains(t, jobs(1), "10.0.0.10")
	require.False(t, c.units[0].Root.Exists("/etc/concourse-ci-machine/concourse-exporter.json"))
	require.False(t, c.units[0].Root.Exists(fleet))
	require.False(t, c.units[0].Machine.Up("concourse-pebble.service"))
	c.idle()
}
