package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// as makes a rule of a check, which does not change the value.
func as(check func(string) error) rule {
	return func(s string) (string, error) { return s, check(s) }
}

var (
	errLine = errors.New("the value has a line end or another control character; write one line of text")
	errWord = errors.New("the value has white space or a control character in it; write it without")
)

// printable reports whether a line of an environment file can hold the text.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// line checks text of one line (D28).
func line(s string) (string, error) {
	if !printable(s) {
		return "", errLine
	}
	return s, nil
}

// word checks a line without white space.
func word(s string) error {
	if !printable(s) || strings.ContainsFunc(s, unicode.IsSpace) {
		return errWord
	}
	return nil
}

// token checks a secret that is sent in a header.
func token(s string) error {
	for _, c := range s {
		if c <= ' ' || c > '~' {
			return errors.New("the value is not a token: it has white space or characters that are not ASCII")
		}
	}
	return nil
}

// names checks names with commas between them. No name is empty.
func names(s string) (string, error) {
	parts, err := list(s, func(part string) error {
		if part == "" {
			return errors.New("there is nothing between two commas; want names with one comma between them")
		}
		_, err := line(part)
		return err
	})
	return strings.Join(parts, ","), err
}

func oneOf[T ~string](s T, legal ...T) error {
	var texts []string
	for _, l := range legal {
		if s == l {
			return nil
		}
		texts = append(texts, string(l))
	}
	return fmt.Errorf("%q is not one of %s", string(s), strings.Join(texts, ", "))
}

// duration checks a time in the syntax of Go, which Concourse uses.
func duration(s string) (string, error) {
	if d, err := time.ParseDuration(s); err != nil || d < 0 {
		return "", fmt.Errorf("%q is not a time such as 30s, 10m or 1h30m", s)
	}
	return s, nil
}

// list splits text at commas and checks each part. Empty text has no parts.
func list(s string, check func(string) error) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if err := check(part); err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return out, nil
}

func address(s string) error {
	if _, err := netip.ParseAddr(s); err != nil {
		return fmt.Errorf("%q is not an IP address; want addresses with commas between them", s)
	}
	return nil
}

func httpURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || !validPort(u.Port()) ||
		(u.Scheme != "http" && u.Scheme != "https") || !printable(s) || strings.ContainsFunc(s, unicode.IsSpace) {
		return fmt.Errorf("%q is not an http or https URL", withoutPassword(s))
	}
	return nil
}

// validPort accepts the port of a URL. "" is the default of the scheme.
func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || err == nil && n > 0
}

// withoutPassword masks the parts of an address that may be secret: all before an @, with
// a user and a password, and the query, which may have a token.
func withoutPassword(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		s = "xxxxx" + s[i:]
	}
	if i := strings.IndexByte(s, '?'); i >= 0 {
		s = s[:i] + "?xxxxx"
	}
	return s
}

// secretURL checks a URL that may contain a password. Its problem does not quote
// the value, because many people can read statuses and logs.
func secretURL(s string) error {
	if httpURL(s) != nil || strings.ContainsAny(s, " \t\r\n\"'\\") {
		return errors.New("the value is not a URL like http://proxy.example:3128")
	}
	return nil
}
