package relation

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// certificateBits is the size of a new key. It is RSA, which every authority
// takes: some sign no other.
const certificateBits = 3072

// maxCommonName is what X.509 lets a common name have (RFC 5280, appendix A.1).
const maxCommonName = 64

// NewCertificateRequest makes a key and a request with it: names are host names
// and IP addresses, at least one. Both are PEM.
func NewCertificateRequest(names []string) (keyPEM, csrPEM string, err error) {
	key, err := rsa.GenerateKey(rand.Reader, certificateBits)
	if err != nil {
		return "", "", fmt.Errorf("cannot make a key for the certificate: %w", err)
	}
	keyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	csrPEM, err = CertificateRequestFor(keyPEM, names)
	return keyPEM, csrPEM, err
}

// CertificateRequestFor makes the request for a key that is there. The same key
// and names, in any order, make the same request for an RSA key, so that it can
// be compared with the one that was published.
func CertificateRequestFor(keyPEM string, names []string) (csrPEM string, err error) {
	if len(names) == 0 {
		return "", errors.New("cannot make a certificate request: there is no name to ask it for")
	}
	key, err := privateKey(keyPEM)
	if err != nil {
		return "", fmt.Errorf("cannot make a certificate request: %w", err)
	}
	var t x509.CertificateRequest
	names = slices.Sorted(slices.Values(names))
	for _, name := range slices.Compact(names) {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if isHost(name) {
			t.DNSNames = append(t.DNSNames, name)
		} else {
			return "", fmt.Errorf("cannot make a certificate request: %.100q is neither a host name nor an address", name)
		}
	}
	// Names before addresses; some authorities sign nothing without a common name.
	for _, name := range slices.Concat(t.DNSNames, names) {
		if len(name) <= maxCommonName {
			t.Subject = pkix.Name{CommonName: name}
			break
		}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &t, key)
	if err != nil {
		return "", fmt.Errorf("cannot make a certificate request: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// privateKey leaves what the text is out of its errors.
func privateKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the key is not in PEM form")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if signer, ok := key.(crypto.Signer); ok && err == nil {
		return signer, nil
	}
	return nil, errors.New("the key is none that certificates are made for")
}

// CertificateBag is the requirer's bag of tls-certificates (library
// tls_certificates_interface v1 to v4), of the unit.
func CertificateBag(csrPEM string) map[string]string {
	data, _ := marshal([]certificateRequest{{strings.TrimSpace(csrPEM), false}}) // text and a bool can be written
	return map[string]string{"certificate_signing_requests": data}
}

type certificateRequest struct {
	Request string `json:"certificate_signing_request"`
	CA      bool   `json:"ca"`
}

func requestOf(text string) (*x509.CertificateRequest, error) {
	if len(text) > maxPEM {
		return nil, errors.New("too long")
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("not in PEM form")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
