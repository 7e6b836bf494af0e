package relation

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Values of a databag come from another machine. What is here checks them
// before they become a line of a file, an environment value or an argument. No
// error quotes a value that may be secret.

// hostName leaves the length to maxHostName, as a counted repetition is slow to
// compile, which every hook would pay for.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

const maxHostName = 253

// isHost reports whether s is a host name or an IP address. An address with a
// zone is none: a zone may hold any character, and means nothing to others.
func isHost(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Zone() == ""
	}
	return len(s) <= maxHostName && hostName.MatchString(s)
}

var errHost = errors.New("want host:port")

// hostPort takes host:port apart. An IPv6 address may stand there without
// brackets, as some providers only put the port behind it. Without a port it is
// fallback, where that is not 0.
func hostPort(s string, fallback int) (host string, port int, err error) {
	if len(s) > maxHostName+len("[]:65535") {
		return "", 0, errHost
	}
	host, number, err := net.SplitHostPort(s)
	if err != nil {
		at := strings.LastIndexByte(s, ':')
		switch {
		case at > 0 && strings.Count(s, ":") > 1 && isHost(s[:at]):
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

// maxText is longer than any name or password.
const maxText = 4096

// plainText says what keeps s from being one line of text. Passwords may have
// any character that can be typed.
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

// secretID is how Juju writes the id of a secret, of another model too. The
// hook tool gets it as an argument, so it must not look like an option.
var secretID = regexp.MustCompile(`^(secret:)?(//[0-9A-Za-z-]+/)?[0-9A-Za-z][0-9A-Za-z-]*$`)

func checkSecretID(s string) error {
	if len(s) > 200 || !secretID.MatchString(s) {
		return errors.New("it is not the id of a secret (secret:...)")
	}
	return nil
}

// maxPEM is longer than any chain of certificates.
const maxPEM = 256 << 10

// certificates reads PEM text that holds certificates and nothing else that
// counts: what stands between blocks is for people and is dropped.
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
			return nil, errors.New("it holds something else than certificates in PEM form")
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

// pemOf writes certificates in the one way that there is.
func pemOf(certs ...*x509.Certificate) string {
	var b strings.Builder
	for _, c := range certs {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return b.String()
}
