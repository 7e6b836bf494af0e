package relation

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fixture(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(data)
}

// fixedKey returns a constant key for tests only.
func fixedKey(t testing.TB) string { t.Helper(); return fixture(t, "key.pem") }

func caPEM(t testing.TB) string { t.Helper(); return fixture(t, "ca.pem") }

func request(t testing.TB, csrPEM string) *x509.CertificateRequest {
	t.Helper()
	r, err := requestOf(csrPEM)
	require.NoError(t, err)
	require.NoError(t, r.CheckSignature())
	return r
}

func TestRequestNamesHostsAndAddresses(t *testing.T) {
	csr, err := CertificateRequestFor(fixedKey(t), []string{"ci.example.com", "10.0.0.5", "fd00::5", "a.lxd", "10.0.0.5"})
	require.NoError(t, err)
	r := request(t, csr)
	require.Equal(t, []string{"a.lxd", "ci.example.com"}, r.DNSNames)
	require.Len(t, r.IPAddresses, 2)
	require.Equal(t, "a.lxd", r.Subject.CommonName)

	csr, err = CertificateRequestFor(fixedKey(t), []string{"10.0.0.5"})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.5", request(t, csr).Subject.CommonName)

	long := strings.Repeat("a", 60) + ".example.com"
	csr, err = CertificateRequestFor(fixedKey(t), []string{long, "10.0.0.5"})
	require.NoError(t, err)
	require.Equal(t, []string{long}, request(t, csr).DNSNames)
	require.Equal(t, "10.0.0.5", request(t, csr).Subject.CommonName, "a common name has an upper bound")
}

func TestSameKeyAndNamesMakeTheSameRequest(t *testing.T) {
	a, err := CertificateRequestFor(fixedKey(t), []string{"ci.example.com", "10.0.0.5"})
	require.NoError(t, err)
	names := []string{"10.0.0.5", "ci.example.com"}
	b, err := CertificateRequestFor(fixedKey(t), names)
	require.NoError(t, err)
	require.Equal(t, a, b, "or each hook would ask for another certificate")
	require.Equal(t, []string{"10.0.0.5", "ci.example.com"}, names, "what is the caller's stays")
	c, err := CertificateRequestFor(fixedKey(t), []string{"10.0.0.6", "ci.example.com"})
	require.NoError(t, err)
	require.NotEqual(t, a, c)
}

func TestNewRequestIsSignedWithItsKey(t *testing.T) {
	key, csr, err := NewCertificateRequest([]string{"ci.example.com"})
	require.NoError(t, err)
	again, err := CertificateRequestFor(key, []string{"ci.example.com"})
	require.NoError(t, err)
	require.Equal(t, csr, again)
	require.Equal(t, certificateBits, request(t, csr).PublicKey.(*rsa.PublicKey).N.BitLen())
}

func TestRequestTakesKeysInEachForm(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	sec1, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for kind, der := range map[string][]byte{"EC PRIVATE KEY": sec1, "PRIVATE KEY": pkcs8} {
		_, err := CertificateRequestFor(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})), []string{"a"})
		require.NoError(t, err, kind)
	}
}

func TestErrorOfARequestDoesNotQuoteTheKey(t *testing.T) {
	for want, row := range map[string]struct {
		key   string
		names []string
	}{
		"it needs a name": {fixedKey(t), nil},
		`"a b" is neither a host name nor an address`:    {fixedKey(t), []string{"a b"}},
		`"*.example.com" is neither`:                     {fixedKey(t), []string{"*.example.com"}},
		`"fe80::1%eth0" is neither`:                      {fixedKey(t), []string{"fe80::1%eth0"}},
		"the key is not in PEM form":                     {"secret text", []string{"a"}},
		"the key is none that certificates are made for": {caPEM(t), []string{"a"}},
	} {
		csr, err := CertificateRequestFor(row.key, row.names)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "cannot make a certificate request: ")
		require.NotContains(t, err.Error(), "secret text")
		require.Empty(t, csr)
	}
}

// authority signs as a provider does; nil makes a root.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string, by *authority) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{key: key}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	if by == nil {
		by = &authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

func (a *authority) sign(t testing.TB, public any, names []string, lasts time.Duration) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lasts)}, a.cert, public, a.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}

// given is a provider's bag.
func given(t testing.TB, list ...any) map[string]string {
	t.Helper()
	data, err := json.Marshal(list)
	require.NoError(t, err)
	return map[string]string{"certificates": string(data)}
}

type entry = map[string]any

// bed is a request and those who sign it.
type bed struct {
	csr                 string
	root, middle, other *authority
	leaf                *x509.Certificate
}

func newBed(t testing.TB) bed {
	t.Helper()
	csr, err := CertificateRequestFor(fixedKey(t), []string{"ci.example.com"})
	require.NoError(t, err)
	b := bed{csr: csr, root: newAuthority(t, "root", nil), other: newAuthority(t, "other", nil)}
	b.middle = newAuthority(t, "middle", b.root)
	b.leaf = b.middle.sign(t, request(t, csr).PublicKey, []string{"ci.example.com"}, time.Hour)
	return b
}

func (b bed) entry(chain ...*x509.Certificate) entry {
	texts := []string{}
	for _, c := range chain {
		texts = append(texts, strings.TrimSpace(pemOf(c)))
	}
	return entry{"certificate": strings.TrimSpace(pemOf(b.leaf)), "certificate_signing_request": strings.TrimSpace(b.csr), "ca": pemOf(b.root.cert), "chain": texts}
}

func TestCertificateIsFoundInEachForm(t *testing.T) {
	b := newBed(t)
	want := Certificate{Cert: pemOf(b.leaf), Chain: pemOf(b.middle.cert), CA: pemOf(b.root.cert)}
	change := func(e entry, key string, value any) entry { e[key] = value; return e }
	for name, list := range map[string][]any{
		"leaf first":                  {b.entry(b.leaf, b.middle.cert, b.root.cert)},
		"root first":                  {b.entry(b.root.cert, b.middle.cert, b.leaf)},
		"without the leaf":            {b.entry(b.middle.cert)},
		"with one of somebody else":   {b.entry(b.other.cert, b.leaf, b.middle.cert)},
		"one text":                    {change(b.entry(), "chain", []string{pemOf(b.leaf, b.middle.cert, b.root.cert)})},
		"behind the certificate":      {change(b.entry(), "certificate", pemOf(b.leaf, b.middle.cert))},
		"not revoked":                 {change(b.entry(b.middle.cert), "revoked", false)},
		"revoked is null":             {change(b.entry(b.middle.cert), "revoked", nil)},
		"keys of later versions":      {change(b.entry(b.middle.cert), "recommended_expiry_notification_time", "soon")},
		"among others'":               {entry{"certificate_signing_request": "x"}, b.entry(b.middle.cert), entry{}},
		"beside one that was revoked": {change(b.entry(b.middle.cert), "revoked", true), b.entry(b.middle.cert)},
		"beside one that is damaged":  {change(b.entry(), "certificate", "x"), b.entry(b.middle.cert)},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok, problems := ParseCertificates(given(t, list...), b.csr+"\n")
			require.Empty(t, problems)
			require.True(t, ok)
			require.Equal(t, want, got)
		})
	}
	none := change(b.entry(), "chain", nil)
	got, ok, _ := ParseCertificates(given(t, none), b.csr)
	require.True(t, ok)
	require.Empty(t, got.Chain)
}

// A server with Cert and Chain is accepted by a client that trusts CA.
func TestCertificateIsAcceptedByTLSClients(t *testing.T) {
	b := newBed(t)
	got, ok, _ := ParseCertificates(given(t, b.entry(b.root.cert, b.middle.cert, b.leaf)), b.csr)
	require.True(t, ok)
	pair, err := tls.X509KeyPair([]byte(got.Cert+got.Chain), []byte(fixedKey(t)))
	require.NoError(t, err)
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(got.CA)))
	require.Len(t, pair.Certificate, 2)
	between.AppendCertsFromPEM([]byte(got.Chain))
	_, err = b.leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: "ci.example.com"})
	require.NoError(t, err)
}

func TestCertificateThatExpiresLastIsUsed(t *testing.T) {
	b := newBed(t)
	older := b.entry(b.middle.cert)
	b.leaf = b.middle.sign(t, request(t, b.csr).PublicKey, []string{"ci.example.com"}, 2*time.Hour)
	newer := b.entry(b.middle.cert)
	for _, list := range [][]any{{older, newer}, {newer, older}} {
		got, ok, _ := ParseCertificates(given(t, list...), b.csr)
		require.True(t, ok)
		require.Equal(t, pemOf(b.leaf), got.Cert)
	}
}

func TestInvalidCertificateIsAProblem(t *testing.T) {
	b := newBed(t)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	other := b.middle.sign(t, stranger.Public(), []string{"ci.example.com"}, time.Hour)
	for name, row := range map[string]struct {
		key   string
		value any
		want  string
	}{
		"revoked":       {"revoked", true, "certificates: the certificate was revoked"},
		"another key's": {"certificate", pemOf(other), "certificates: certificate: it is for another key than the request's"},
		"a private key": {"certificate", fixedKey(t), "certificates: certificate: it holds more than certificates in PEM form"},
		"text":          {"certificate", "x", "certificates: certificate: it is not a certificate in PEM form"},
		"no CA":         {"ca", "", "certificates: ca: it is not a certificate in PEM form"},
		"damaged CA":    {"ca", damaged, "certificates: ca: one of its certificates can't be read"},
		"endless CA":    {"ca", strings.Repeat("x", maxPEM+1), "certificates: ca: it is longer than"},
		"damaged chain": {"chain", []string{damaged}, "certificates: chain: one of its certificates can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			e := b.entry(b.middle.cert)
			e[row.key] = row.value
			got, ok, problems := ParseCertificates(given(t, e), b.csr)
			require.False(t, ok)
			require.Zero(t, got)
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], row.want)
		})
	}
	_, ok, problems := ParseCertificates(map[string]string{"certificates": "{}"}, b.csr)
	require.False(t, ok)
	require.Equal(t, []string{"certificates: want a JSON list of certificates"}, problems)
}

func TestUnsignedRequestIsNotAProblem(t *testing.T) {
	b := newBed(t)
	another, err := CertificateRequestFor(fixedKey(t), []string{"another.example.com"})
	require.NoError(t, err)
	for name, row := range map[string]struct {
		app map[string]string
		csr string
	}{
		"no bag": {nil, b.csr}, "empty list": {given(t), b.csr}, "another request's": {given(t, b.entry()), another}, "no request of ours": {given(t, b.entry()), ""},
	} {
		_, ok, problems := ParseCertificates(row.app, row.csr)
		require.False(t, ok, name)
		require.Empty(t, problems, name)
	}
}

// A chain that goes round must not be followed forever.
func TestChainHasABoundedLength(t *testing.T) {
	a := newAuthority(t, "a", nil)
	b := newAuthority(t, "b", a)
	var long []*x509.Certificate
	top := b
	for range 2 * maxChain {
		top = newAuthority(t, "x"+top.cert.Subject.CommonName, top)
		long = append(long, top.cert)
	}
	leaf := top.sign(t, a.key.Public(), []string{"x"}, time.Hour)
	require.Len(t, chainOf(leaf, long), maxChain)
	require.Empty(t, chainOf(a.cert, []*x509.Certificate{a.cert, a.cert}))
	require.True(t, bytes.Equal(b.cert.Raw, chainOf(b.sign(t, a.key.Public(), []string{"y"}, time.Hour), []*x509.Certificate{a.cert, b.cert, b.cert})[0].Raw))
}
