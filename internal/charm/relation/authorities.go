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

// AuthoritiesRequest is the application's bag of certificate_transfer's requirer. Without
// it a provider takes this side for one that knows version 0 alone.
func AuthoritiesRequest() map[string]string { return map[string]string{"version": "1"} }

// Authority is one that certifies others.
type Authority struct {
	Fingerprint string // SHA-256 of the certificate, 64 hex digits
	PEM         string // one certificate
}

const (
	// MaxAuthorities is more than the public ones that a system has.
	MaxAuthorities = 200
	// maxAuthorities is the length of a list of so many in JSON.
	maxAuthorities = 1 << 20
)

// ParseAuthorities reads the bags of one relation to certificate_transfer's provider: that
// of its application (version 1), or those of its units where that has no list (version
// 0). What is no authority's certificate is left out, with a problem for each key; of
// version 0 only in ca, as the other keys may hold a server's own.
func ParseAuthorities(app map[string]string, units map[string]map[string]string) ([]Authority, []string) {
	r := reader{}
	if text, newer := app["certificates"]; newer {
		list, err := textsOf(text)
		r.bad("certificates", err)
		all, err := authorities(list)
		r.bad("certificates", err)
		return Distinct(all), r.problems
	}
	var all []Authority
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		bag := units[unit]
		ca, err := authorities(textOf(bag["ca"]))
		r.bad("ca", err)
		// Of the same certificates; a server's own comes first among them.
		cert, _ := authorities(textOf(bag["certificate"]))
		list, err := textsOf(bag["chain"])
		r.bad("chain", err)
		chain, _ := authorities(list)
		all = slices.Concat(all, ca, cert, chain)
	}
	return Distinct(all), slices.Compact(r.problems)
}

// Distinct is each authority once, in an order that depends on nothing else.
func Distinct(all []Authority) []Authority {
	slices.SortFunc(all, func(a, b Authority) int { return strings.Compare(a.Fingerprint, b.Fingerprint) })
	return slices.Compact(all)
}

// textOf is the text of a key, none where it is missing. The library of version 1 writes as
// JSON what the library of version 0 writes as it is.
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

// authorities are those of the texts that are; the error tells how many are not, and why
// the first is not.
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
