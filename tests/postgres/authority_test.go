//go:build e2e

package postgres

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// signed is a certificate with its key.
type signed struct {
	PEM, Key string
	cert     *x509.Certificate
	key      crypto.Signer
}

var (
	authority   = sign("the CA of this test", nil)
	stranger    = sign("another CA", nil)
	certificate = sign("the server", authority)
)

// sign makes a CA, or the certificate of the server at 127.0.0.1 by one.
func sign(name string, by *signed) *signed {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	s := &signed{key: key, cert: t}
	if by == nil {
		t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
		by = s
	} else {
		t.IPAddresses, t.ExtKeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, by.cert, key.Public(), by.key)
	if err != nil {
		panic(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	if s.cert, err = x509.ParseCertificate(der); err != nil {
		panic(err)
	}
	s.PEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	s.Key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return s
}
