package relation

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Certificate is what an authority gave, all PEM.
type Certificate struct {
	Cert  string // the server's own
	Chain string // those between it and the CA, in the order that a server sends; may be ""
	CA    string // what clients have to trust
}

// Expires is when the server's own certificate ends; zero where there is none.
func (c Certificate) Expires() time.Time {
	certs, err := certificates(c.Cert)
	if err != nil {
		return time.Time{}
	}
	return certs[0].NotAfter
}

// issued is an element of the provider's list. v1 has no revoked, and v4 may
// leave the chain out.
type issued struct {
	Certificate string   `json:"certificate"`
	Request     string   `json:"certificate_signing_request"`
	CA          string   `json:"ca"`
	Chain       []string `json:"chain"`
	Revoked     bool     `json:"revoked"`
}

// ParseCertificates finds the certificate for a request in the application's
// bag of a provider. ok without a certificate and without problems is a provider
// that has not signed the request yet. Of several that fit, the one that lasts
// longest counts.
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
			r.bad("certificates", errors.New("the certificate was revoked"))
			continue
		}
		leaf, out, err := c.read(request)
		if err != nil {
			r.bad("certificates", err)
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

// maxChain bounds the work; no authority has that many above it.
const maxChain = 10

// chainOf picks those that lead on from the leaf, whatever order they came in:
// libraries differ in it. The root is left out: who does not have it does not
// trust it.
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
