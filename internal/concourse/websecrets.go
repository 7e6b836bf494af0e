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

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

// WebSecrets is what all webs of an application have in common, whichever of
// them is asked: workers know one TSA by its key, a token that one web signed
// is good at the others, and the first user has one password (D3, D24).
//
// A new TSAHostKey is unknown to the workers until they are told its public
// half. A new SessionSigningKey ends every login, and as each web derives its
// own credentials from it, all of them have to be restarted with it.
type WebSecrets struct{ TSAHostKey, SessionSigningKey, AdminPassword string }

// webKeyBits is the size of the two keys, good for use beyond 2030.
const webKeyBits = 3072

// NewWebSecrets makes them; it takes a second or so.
func NewWebSecrets() (WebSecrets, error) { return newWebSecrets(webKeyBits) }

func newWebSecrets(bits int) (WebSecrets, error) {
	var pems [2]string
	for i := range pems {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			return WebSecrets{}, fmt.Errorf("cannot make a key of the web: %w", err)
		}
		pems[i] = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	}
	// 26 letters and digits, 130 bits: nothing that a shell or an environment
	// file would read as more than a letter.
	return WebSecrets{pems[0], pems[1], rand.Text()}, nil
}

// HostPublicKey is the public half of TSAHostKey, one OpenSSH line without
// comment and line end: the only part of the secrets that travels openly.
func (s WebSecrets) HostPublicKey() (string, error) {
	return publicLine("the key of the TSA", []byte(s.TSAHostKey))
}

// The keys of the secret's content.
const (
	secretTSAHostKey    = "tsa-host-key"
	secretSessionKey    = "session-signing-key"
	secretAdminPassword = "admin-password"
)

// Content is the secrets as content of a Juju secret.
func (s WebSecrets) Content() map[string]string {
	return map[string]string{secretTSAHostKey: s.TSAHostKey, secretSessionKey: s.SessionSigningKey, secretAdminPassword: s.AdminPassword}
}

// SecretError is a part of the secret that is missing or of no use.
type SecretError struct{ Key, Problem string }

func (e *SecretError) Error() string {
	return fmt.Sprintf("cannot use the secret of the web: %s: %s", e.Key, e.Problem)
}

// ParseWebSecrets reads that content; other keys in it are not looked at. An
// error is a *SecretError and names the first key that is of no use, never what
// is in it.
func ParseWebSecrets(content map[string]string) (WebSecrets, error) {
	// Juju may give a PEM back without its last line end.
	s := WebSecrets{pemText(content[secretTSAHostKey]), pemText(content[secretSessionKey]), content[secretAdminPassword]}
	for _, k := range []struct{ name, text string }{{secretTSAHostKey, s.TSAHostKey}, {secretSessionKey, s.SessionSigningKey}} {
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

// CheckPassword says why Concourse could not take this as a local user's
// password: commas separate its users, and a line end ends its variable.
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

// Keys are the files of the secrets, those of the private halves 0600.
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
