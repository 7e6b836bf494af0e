package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// certificate is a made-up certificate and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return block("CERTIFICATE", der), block("PRIVATE KEY", pkcs8)
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// D28: if Concourse needs a path, PEM text becomes a file and never a line of the environment.
func TestD28PEMTextBecomesAFileAndAPathDoesNot(t *testing.T) {
	cert, key := certificate(t)
	c, problems := Parse(map[string]any{"vault-ca-cert": cert + cert, "vault-client-cert": cert, "vault-client-key": key}, nil)
	require.Empty(t, problems)
	require.Equal(t, map[string]string{"CONCOURSE_VAULT_CA_CERT": cert + cert, "CONCOURSE_VAULT_CLIENT_CERT": cert, "CONCOURSE_VAULT_CLIENT_KEY": key}, c.Web.Files)
	for env := range c.Web.Files {
		require.NotContains(t, c.Web.VaultEnv, env)
		require.Contains(t, WebEnvKeys(), env)
	}

	raw := full(t)
	raw["oauth-ca-cert"], raw["oidc-ca-cert"], raw["vault-ca-cert"] = "/etc/a.pem, /etc/b.pem", "/etc/c.pem", "/etc/d.pem"
	c, problems = Parse(raw, nil)
	require.Empty(t, problems)
	require.Empty(t, c.Web.Files)
	require.Equal(t, "/etc/a.pem,/etc/b.pem", c.Web.Env["CONCOURSE_OAUTH_CA_CERT"])
	require.Equal(t, "/etc/c.pem", c.Web.Env["CONCOURSE_OIDC_CA_CERT"])
	require.Equal(t, "/etc/d.pem", c.Web.VaultEnv["CONCOURSE_VAULT_CA_CERT"])
}

func TestD28InvalidPEMIsRefused(t *testing.T) {
	cert, key := certificate(t)
	_, other := certificate(t)
	sealed := "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n"
	const nothing = "the value is not a path on the unit or PEM text; give a file's text with <option>=@<file>"
	const damaged = " is damaged: want its lines as the file has them, from -----BEGIN to -----END"
	for name, c := range map[string]struct{ ca, cert, key, want string }{
		"no path":           {ca: "ca.pem", want: "vault-ca-cert: " + nothing},
		"cut off":           {ca: cert[:len(cert)-10], want: "vault-ca-cert: PEM block 1" + damaged},
		"one line":          {ca: strings.ReplaceAll(cert, "\n", " "), want: "vault-ca-cert: PEM block 1" + damaged},
		"first is damaged":  {ca: strings.Replace(cert, "-----END", "-----ENDE", 1) + cert, want: "vault-ca-cert: PEM block 1" + damaged},
		"text between":      {ca: cert + "and\n" + cert, want: "vault-ca-cert: PEM block 2" + damaged},
		"not a certificate": {ca: block("CERTIFICATE", []byte("x")), want: "vault-ca-cert: PEM block 1 is not a readable certificate"},
		"a key as CA":       {ca: key, want: "vault-ca-cert: PEM block 1 is a PRIVATE KEY; want certificates only"},
		"a cert as key":     {cert: cert, key: cert, want: "vault-client-key: PEM block 1 is not a private key"},
		"two keys":          {cert: cert, key: key + other, want: "vault-client-key: the PEM text has 2 private keys; want one"},
		"a passphrase":      {cert: cert, key: sealed, want: "vault-client-key: the key has a passphrase; write one without, as openssl pkey makes it"},
		"sealed PKCS #8":    {cert: cert, key: block("ENCRYPTED PRIVATE KEY", []byte("x")), want: "vault-client-key: the key has a passphrase; write one without, as openssl pkey makes it"},
		"another's key":     {cert: cert, key: other, want: "vault-client-key: the key does not belong to the first certificate in vault-client-cert"},
		"no certificate":    {key: key, want: "vault-client-key: vault-client-cert and vault-client-key go together; set both or none"},
		"no key":            {cert: cert, want: "vault-client-key: vault-client-cert and vault-client-key go together; set both or none"},
	} {
		_, problems := Parse(map[string]any{"vault-ca-cert": c.ca, "vault-client-cert": c.cert, "vault-client-key": c.key}, nil)
		require.Len(t, problems, 1, name)
		require.Equal(t, c.want, problems[0].String(), name)
	}
}

// Concourse reads every block of a valid text.
func FuzzPEM(f *testing.F) {
	f.Add("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		err := blocks(strings.TrimSpace(text), func(int, *pem.Block) error { n++; return nil })
		if err == nil {
			require.Equal(t, strings.Count(text, "-----BEGIN"), n)
		}
	})
}
