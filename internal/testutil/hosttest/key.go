package hosttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// keyBits is less than Concourse's 4096, which take longer.
const keyBits = 2048

var made struct {
	sync.Mutex
	keys map[string]*rsa.PrivateKey
}

// Key returns one key for each name, generated at its first use. It has the files that
// `concourse generate-key -t ssh` writes. With -t rsa only the first one applies.
func Key(name string) (private, public string) {
	made.Lock()
	defer made.Unlock()
	if made.keys[name] == nil {
		key, err := rsa.GenerateKey(rand.Reader, keyBits)
		if err != nil {
			panic(err) // only if the machine has no randomness
		}
		if made.keys == nil {
			made.keys = map[string]*rsa.PrivateKey{}
		}
		made.keys[name] = key
	}
	return keyFiles(made.keys[name])
}

// keyFiles returns the private half as PKCS#1 under the label of PKCS#8, which no other
// program writes, and the public half as an OpenSSH line.
func keyFiles(key *rsa.PrivateKey) (private, public string) {
	half, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		panic(err) // an RSA key always has one
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		string(ssh.MarshalAuthorizedKey(half))
}

// Authority represents a private certificate authority.
type Authority struct {
	PEM string

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority creates an authority with a name.
func NewAuthority(t testing.TB, name string) Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return Authority{PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), cert: template, key: key}
}

// Server returns a certificate of the authority for a server name.
func (a Authority) Server(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader,
		&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
			NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Sign returns the certificate for a request.
func (a Authority) Sign(t testing.TB, request string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(request))
	require.NotNil(t, block)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(3), Subject: csr.Subject,
		DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter},
		a.cert, csr.PublicKey, a.key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
