package relation

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Certificate holds a signed certificate with its chain, all as PEM.
type Certificate struct {
	Cert  string // certificate of the server
	Chain string // intermediate certificates, in the order that a server sends; may be ""
	CA    string // certificate that clients must trust
}

// issued describes an element of the provider's list. Library v1 has no key revoked, and v4
// may leave out the chain.
type issued struct {
	Certificate string   `json:"certificate"`
	Request     string   `json:"certificate_signing_request"`
	CA          string   `json:"ca"`
	Chain       []string `json:"chain"`
	Revoked     bool     `json:"revoked"`
}

// ParseCertificates finds the certificate for a request in the databag of the provider's
// application. It returns false without problems if the provider has not signed the
// request yet. If several certificates match, the one that expires last is used.
func ParseCertificates(app map[string]string, csrPEM string) (Certificate, bool, []string) {
	r := reader{}
	request, err := requestOf(csrPEM)
	if err != nil || app["certificates"] == "" {
		return Certificate{}, false, nil
	}
	var list []issued
	if err := json.Unmarshal([]byte(app["certificates"]), &list); err != nil {
		return Certificate{}, false, []string{"certificates: want a JSON list of certificates"}
	}
	var best *x509.Certificate
	var found Certificate
	for _, c := range list {
		other, err := requestOf(c.Request)
		if err != nil || !bytes.Equal(other.Raw, request.Raw) {
			continue
		}
		if c.Revoked {
			r.addProblem("certificates", errors.New("the certificate was revoked"))
			continue
		}
		leaf, out, err := c.read(request)
		if err != nil {
			r.addProblem("certificates", err)
			continue
		}
		if best == nil || leaf.NotAfter.After(best.NotAfter) {
			best, found = leaf, out
		}
	}
	if best != nil {
		return found, true, nil
	}
	return Certificate{}, false, r.problems
}

func (c issued) read(request *x509.CertificateRequest) (leaf *x509.Certificate, out Certificate, err error) {
	certs, err := certificates(c.Certificate)
	if err != nil {
		return nil, out, fmt.Errorf("certificate: %w", err)
	}
	leaf = certs[0]
	if key, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !key.Equal(request.PublicKey) {
		return nil, out, errors.New("certificate: it is for another key than the request's")
	}
	ca, err := certificates(c.CA)
	if err != nil {
		return nil, out, fmt.Errorf("ca: %w", err)
	}
	pool := certs[1:]
	for _, text := range c.Chain {
		more, err := certificates(text)
		if err != nil {
			return nil, out, fmt.Errorf("chain: %w", err)
		}
		pool = append(pool, more...)
	}
	return leaf, Certificate{Cert: pemOf(leaf), Chain: pemOf(chainOf(leaf, pool)...), CA: pemOf(ca...)}, nil
}

// maxChain bounds the work: real chains are shorter.
const maxChain = 10

// chainOf returns the certificates from the leaf up to the root, in order. Libraries
// differ in the order of the list. The root is left out: only clients that have it trust it.
func chainOf(leaf *x509.Certificate, pool []*x509.Certificate) (chain []*x509.Certificate) {
	at := leaf
	for len(chain) < maxChain {
		i := slices.IndexFunc(pool, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawSubject, at.RawIssuer) && !bytes.Equal(c.RawSubject, c.RawIssuer) &&
				!slices.ContainsFunc(chain, c.Equal) && at.CheckSignatureFrom(c) == nil
		})
		if i < 0 {
			return chain
		}
		at = pool[i]
		chain = append(chain, at)
	}
	return chain
}

// certificateBits is the size of a new key. The key is RSA because some authorities sign
// no other kind.
const certificateBits = 3072

// maxCommonName is the longest common name of X.509 (RFC 5280, appendix A.1).
const maxCommonName = 64

// NewCertificateRequest makes a key and a request with it, both as PEM. names are host
// names and IP addresses, at least one.
func NewCertificateRequest(names []string) (keyPEM, csrPEM string, err error) {
	key, err := rsa.GenerateKey(rand.Reader, certificateBits)
	if err != nil {
		return "", "", fmt.Errorf("cannot make a key for the certificate: %w", err)
	}
	keyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	csrPEM, err = CertificateRequestFor(keyPEM, names)
	return keyPEM, csrPEM, err
}

// CertificateRequestFor makes the request for an existing key. The same RSA key and names,
// in any order, give the same request. So it can be compared with the published request.
func CertificateRequestFor(keyPEM string, names []string) (csrPEM string, err error) {
	if len(names) == 0 {
		return "", errors.New("cannot make a certificate request: it needs a name")
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
			return "", fmt.Errorf("cannot make a certificate request: %.100q is neither a host name nor an address",
				name)
		}
	}
	// Host names come first. Some authorities sign nothing without a common name.
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

// privateKey reads a key in PEM form. Its errors never quote the key.
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

// CertificateDatabag returns the unit's databag of tls-certificates (requirer, library
// tls_certificates_interface v1 to v4).
func CertificateDatabag(csrPEM string) map[string]string {
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
