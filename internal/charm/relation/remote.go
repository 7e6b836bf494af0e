package relation

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// Values of a databag come from another machine. The functions below check them before
// they become a line of a file, an environment value or an argument. No error quotes a
// value that may be secret.

// hostName does not check the length, see maxHostName. A counted repetition compiles
// slowly, in every hook.
var hostName = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

const maxHostName = 253

// isHost reports whether s is a host name or an IP address. An address with a zone is
// refused: a zone may contain any character, and other hosts cannot use it.
func isHost(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Zone() == ""
	}
	return len(s) <= maxHostName && hostName().MatchString(s)
}

var errHost = errors.New("want host:port")

// hostPort splits host:port. An IPv6 address without brackets is accepted, because some
// providers just append the port. If the port is missing, fallback is used unless it is 0.
func hostPort(s string, fallback int) (host string, port int, err error) {
	if len(s) > maxHostName+len("[]:65535") {
		return "", 0, errHost
	}
	host, number, err := net.SplitHostPort(s)
	if err != nil {
		at := strings.LastIndexByte(s, ':')
		switch {
		case isHost(s[:max(0, at)]):
			host, number = s[:at], s[at+1:]
		case fallback != 0 && isHost(strings.Trim(s, "[]")):
			host, number = strings.Trim(s, "[]"), strconv.Itoa(fallback)
		default:
			return "", 0, fmt.Errorf("%.100q is not host:port", s)
		}
	}
	if !isHost(host) {
		return "", 0, fmt.Errorf("%.100q names no host", s)
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%.100q has no port between 1 and 65535", s)
	}
	return host, int(n), nil
}

// maxText exceeds the length of any name or password.
const maxText = 4096

// plainText returns an error unless s is one line of text. Passwords may contain any
// printable character.
func plainText(s string) error {
	switch {
	case len(s) > maxText:
		return fmt.Errorf("it is longer than %d bytes", maxText)
	case !utf8.ValidString(s):
		return errors.New("it is not text in UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("it has a line break or another control character")
	}
	return nil
}

// secretID matches the id of a Juju secret, also of another model. It is an argument of the
// hook tool, so it must not look like an option.
var secretID = lazyregexp.New(`^(secret:)?(//[0-9A-Za-z-]+/)?[0-9A-Za-z][0-9A-Za-z-]*$`)

func checkSecretID(s string) error {
	if len(s) > 200 || !secretID().MatchString(s) {
		return errors.New("it is not the id of a secret (secret:...)")
	}
	return nil
}

// maxPEM exceeds the length of any chain of certificates.
const maxPEM = 256 << 10

// certificates reads PEM text that contains only certificates. Text between the blocks is
// dropped.
func certificates(text string) ([]*x509.Certificate, error) {
	if len(text) > maxPEM {
		return nil, fmt.Errorf("it is longer than %d bytes", maxPEM)
	}
	var out []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, errors.New("it holds more than certificates in PEM form")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("one of its certificates can't be read")
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, errors.New("it is not a certificate in PEM form")
	}
	return out, nil
}

// pemOf writes certificates as PEM without comments.
func pemOf(certs ...*x509.Certificate) string {
	var b strings.Builder
	for _, c := range certs {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return b.String()
}

// unitsInOrder sorts app/2 before app/10. So a choice among units is the same in each hook.
func unitsInOrder[V any](bags map[string]V) []string {
	return slices.SortedFunc(maps.Keys(bags), func(a, b string) int {
		x, m, _ := strings.Cut(a, "/")
		y, n, _ := strings.Cut(b, "/")
		i, _ := strconv.Atoi(m)
		j, _ := strconv.Atoi(n)
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		return i - j
	})
}

// joinHostPort accepts hosts with brackets, too.
func joinHostPort(host, port string) string { return net.JoinHostPort(strings.Trim(host, "[]"), port) }
