package concourse

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// WebSecrets holds the secrets that all webs of an application share. Workers then see one
// TSA key, a token of one web is valid at the others, and the first user has one password
// (D3, D24).
//
// Workers reject a new TSAHostKey until they receive its public half. A new
// SessionSigningKey ends every login. Each web derives its credentials from it, so all webs
// must restart with it.
type WebSecrets struct{ TSAHostKey, SessionSigningKey, AdminPassword string }

// webKeyBits is the size of the two keys, sufficient beyond 2030.
const webKeyBits = 3072

// NewWebSecrets generates the secrets, which takes about a second.
func NewWebSecrets() (WebSecrets, error) { return newWebSecrets(webKeyBits) }

func newWebSecrets(bits int) (WebSecrets, error) {
	var pems [2]string
	for i := range pems {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			return WebSecrets{}, fmt.Errorf("cannot make a key of the web: %w", err)
		}
		pems[i] = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	}
	// 26 letters and digits, 130 bits, without any special character of a shell or an
	// environment file.
	return WebSecrets{pems[0], pems[1], rand.Text()}, nil
}

// HostPublicKey returns the public half of TSAHostKey, one OpenSSH line without comment and
// line end. It is the only part of the secrets that is sent openly.
func (s WebSecrets) HostPublicKey() (string, error) {
	return publicLine("the key of the TSA", []byte(s.TSAHostKey))
}

// The keys of the secret's content.
const (
	secretTSAHostKey    = "tsa-host-key"
	secretSessionKey    = "session-signing-key"
	secretAdminPassword = "admin-password"
)

// Content returns the secrets as content of a Juju secret.
func (s WebSecrets) Content() map[string]string {
	return map[string]string{secretTSAHostKey: s.TSAHostKey, secretSessionKey: s.SessionSigningKey,
		secretAdminPassword: s.AdminPassword}
}

// SecretError reports a part of the secret that is missing or unusable.
type SecretError struct{ Key, Problem string }

func (e *SecretError) Error() string {
	return fmt.Sprintf("cannot use the secret of the web: %s: %s", e.Key, e.Problem)
}

// ParseWebSecrets reads content, and ignores other keys in it. An error is a *SecretError,
// which names the first unusable key and never its value.
func ParseWebSecrets(content map[string]string) (WebSecrets, error) {
	// Juju may return a PEM without its last line end.
	s := WebSecrets{pemText(content[secretTSAHostKey]), pemText(content[secretSessionKey]),
		content[secretAdminPassword]}
	for _, k := range []struct{ name, text string }{{secretTSAHostKey, s.TSAHostKey},
		{secretSessionKey, s.SessionSigningKey}} {
		if problem := KeyProblem(k.text); problem != "" {
			return WebSecrets{}, &SecretError{k.name, problem}
		}
	}
	if err := CheckPassword(s.AdminPassword); err != nil {
		return WebSecrets{}, &SecretError{secretAdminPassword, err.Error()}
	}
	return s, nil
}

func pemText(s string) string {
	if s = strings.TrimSpace(s); s != "" {
		s += "\n"
	}
	return s
}

// CheckPassword returns why Concourse rejects s as a local user's password. Commas separate
// its users, and a line end ends its variable.
func CheckPassword(s string) error {
	switch {
	case s == "":
		return errors.New("it is empty")
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("it holds a line end or another control character")
	case strings.Contains(s, ","):
		return errors.New("it holds a comma, which separates users")
	}
	return nil
}

// Keys returns the files of the secrets. The private halves have mode 0600.
func (p WebPaths) Keys(s WebSecrets) ([]plan.Resource, error) {
	public, err := s.HostPublicKey()
	if err != nil {
		return nil, err
	}
	return []plan.Resource{
		resource.File{Path: p.TSAHostKey(), Data: []byte(s.TSAHostKey), Mode: 0o600, Owner: WebUser},
		resource.File{Path: p.TSAHostKeyPublic(), Data: []byte(public + "\n"), Mode: 0o644, Owner: WebUser},
		resource.File{Path: p.SessionKey(), Data: []byte(s.SessionSigningKey), Mode: 0o600, Owner: WebUser},
	}, nil
}
