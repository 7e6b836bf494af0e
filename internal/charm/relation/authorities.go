package relation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// AuthoritiesRequest returns the application's databag of certificate_transfer's requirer.
// Without it a provider assumes that the requirer supports version 0 only.
func AuthoritiesRequest() map[string]string { return map[string]string{"version": "1"} }

// Authority holds the certificate of a certificate authority.
type Authority struct {
	Fingerprint string // SHA-256 of the certificate, 64 hex digits
	PEM         string // one certificate
}

const (
	// MaxAuthorities exceeds the number of public authorities of a system.
	MaxAuthorities = 200
	// maxAuthorities is the length of a list of MaxAuthorities certificates in JSON.
	maxAuthorities = 1 << 20
)

// ParseAuthorities reads the databags of one relation to certificate_transfer's provider.
// It reads the application's databag (version 1), or the units' databags if that has no
// list (version 0). A certificate of another kind is left out, with a problem for each key.
// In version 0 only the key ca must hold authorities: the other keys may hold a server's
// certificate.
func ParseAuthorities(app map[string]string, units map[string]map[string]string) ([]Authority, []string) {
	r := reader{}
	if text, newer := app["certificates"]; newer {
		list, err := textsOf(text)
		r.addProblem("certificates", err)
		all, err := authorities(list)
		r.addProblem("certificates", err)
		return Distinct(all), r.problems
	}
	var all []Authority
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		bag := units[unit]
		ca, err := authorities(textOf(bag["ca"]))
		r.addProblem("ca", err)
		// The other keys repeat the same certificates, with the server's certificate first.
		cert, _ := authorities(textOf(bag["certificate"]))
		list, err := textsOf(bag["chain"])
		r.addProblem("chain", err)
		chain, _ := authorities(list)
		all = slices.Concat(all, ca, cert, chain)
	}
	return Distinct(all), slices.Compact(r.problems)
}

// Distinct returns each authority once, in an order that depends only on the authorities.
func Distinct(all []Authority) []Authority {
	slices.SortFunc(all, func(a, b Authority) int { return strings.Compare(a.Fingerprint, b.Fingerprint) })
	return slices.Compact(all)
}

// textOf returns the text of a key, nil if it is missing. The library of version 1 writes
// the same value as JSON that the library of version 0 writes as plain text.
func textOf(text string) []string {
	var decoded string
	if json.Unmarshal([]byte(text), &decoded) == nil {
		text = decoded
	}
	if text == "" {
		return nil
	}
	return []string{text}
}

func textsOf(text string) (list []string, err error) {
	switch {
	case text == "":
	case len(text) > maxAuthorities:
		err = fmt.Errorf("it is longer than %d bytes", maxAuthorities)
	case json.Unmarshal([]byte(text), &list) != nil:
		return nil, errors.New("want a JSON list of certificates in PEM form")
	}
	return list, err
}

// authorities returns the certificate authorities in texts. The error has the number of
// other texts and the reason why the first of them is refused.
func authorities(texts []string) (all []Authority, err error) {
	bad := 0
	for _, text := range texts {
		certs, why := certificates(text)
		for _, c := range certs {
			if !c.BasicConstraintsValid || !c.IsCA {
				why = errors.New("it is not an authority's certificate (no basic constraint CA:TRUE)")
				continue
			}
			sum := sha256.Sum256(c.Raw)
			all = append(all, Authority{Fingerprint: hex.EncodeToString(sum[:]), PEM: pemOf(c)})
		}
		if why == nil {
			continue
		}
		if bad++; bad == 1 {
			err = why
		}
	}
	if err != nil && len(texts) > 1 {
		err = fmt.Errorf("%d of %d are left out: %w", bad, len(texts), err)
	}
	return all, err
}
