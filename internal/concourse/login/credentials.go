// Package login has the file with which a web gives its job exporter the credentials. Both
// import it, so that the web need not import the exporter. It never logs in.
package login

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Credentials have the address and user of Concourse. Marshal writes their file.
type Credentials struct {
	// URL of the web, http or https: "http://127.0.0.1:8080".
	URL string `json:"url"`
	// Username and Password of a user that Concourse itself checks, or LDAP if that is its
	// password connector.
	Username string `json:"username"`
	Password string `json:"password"`
	// CAFile is a PEM file with the only trusted authorities for https. "" means the
	// machine's authorities.
	CAFile string `json:"ca-file,omitempty"`
	// ServerName is the name in the web's certificate if it differs from the URL.
	ServerName string `json:"server-name,omitempty"`
}

// Marshal returns the content of the credentials file. Equal credentials give equal
// content. It fails if Parse would.
func (c Credentials) Marshal() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(c); err != nil {
		return nil, fmt.Errorf("cannot write credentials: %w", err)
	}
	return b.Bytes(), nil
}

// Parse parses the content of a credentials file. Its errors never quote it.
func Parse(data []byte) (Credentials, error) {
	var c Credentials
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Credentials{}, fmt.Errorf("not JSON with the keys url, username, password, ca-file and "+
			"server-name: %w", harmless(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Credentials{}, errors.New("data follows the first JSON value")
	}
	return c, c.check()
}

// harmless removes from a JSON error the parts that could quote a secret.
func harmless(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("syntax error at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("wrong type at byte %d", kind.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends too early")
	}
	return errors.New("an unknown key")
}

func (c Credentials) check() error {
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		return errors.New("url is missing")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("url is not one like http://127.0.0.1:8080")
	case u.User != nil:
		return errors.New("url has a user in it; use username and password")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return errors.New("url has a query or fragment")
	case c.Username == "":
		return errors.New("username is missing")
	case c.Password == "":
		return errors.New("password is missing")
	case c.CAFile != "" && !filepath.IsAbs(c.CAFile):
		return errors.New("ca-file is not an absolute path")
	case (c.CAFile != "" || c.ServerName != "") && u.Scheme != "https":
		return errors.New("ca-file and server-name need an https url")
	case !utf8.ValidString(c.Username + c.Password + c.CAFile + c.ServerName):
		return errors.New("a value is not UTF-8")
	case !clean(c.URL + c.Username + c.CAFile + c.ServerName):
		return errors.New("url, username, ca-file or server-name has a control character")
	}
	return nil
}

func clean(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// String returns the credentials without the password, for logs.
func (c Credentials) String() string { return c.Username + " at " + c.URL }

// GoString does the same for %#v.
func (c Credentials) GoString() string { return "Credentials(" + c.String() + ")" }
