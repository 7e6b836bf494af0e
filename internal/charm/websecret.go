package charm

import (
	"errors"
	"io/fs"
	"maps"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/config"
)

// What the application's secret holds beside concourse.WebSecrets.
const (
	encryptionKey    = "encryption-key"     // the one that the database is encrypted with
	oldEncryptionKey = "old-encryption-key" // the one before, for rows that are not encrypted anew yet
	adminPassword    = "admin-password"
	tsaHostKey       = "tsa-host-key"
	sessionKey       = "session-signing-key"
)

// completeSecret gives the leader of a new application its keys and password.
// What the predecessor left is taken over: the keys on this unit's disk, and
// the password in the peers' bag (D33). The leader tells Juju when all is
// applied; what it made is kept until then in the facts.
func (c *Charm) completeSecret(f *Facts, cfg config.Config) error {
	if f.Role != WebRole || !f.Leader || f.Web == nil {
		return nil
	}
	if f.Web.Secret == nil {
		f.Web.Secret = map[string]string{}
	}
	s := f.Web.Secret
	paths := concourse.WebFiles(cfg.SharedStorage != "none").TakeOverFrom(c.Host.Root)
	if f.Web.SecretID == "" && s[encryptionKey] == "" && s[oldEncryptionKey] == "" {
		// The database may be encrypted with a key whose option is empty by now.
		s[encryptionKey], s[oldEncryptionKey] = paths.PredecessorEncryption(c.Host.Root)
	}
	for key, path := range map[string]string{tsaHostKey: paths.TSAHostKey(), sessionKey: paths.SessionKey()} {
		if s[key] != "" {
			continue
		}
		data, err := c.Host.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return jujuerrors.Annotatef(err, "cannot take over %s", path)
		}
		s[key] = string(data)
	}
	if s[adminPassword] == "" && f.Peer != nil {
		s[adminPassword] = f.Peer.Remote[adminPassword]
	}
	if s[tsaHostKey] != "" && s[sessionKey] != "" && s[adminPassword] != "" {
		return nil
	}
	fresh, err := c.newSecrets()
	if err != nil {
		return jujuerrors.Annotate(err, "cannot make the web's keys")
	}
	for key, value := range fresh.Content() {
		if s[key] == "" {
			s[key] = value
		}
	}
	return nil
}

func (c *Charm) newSecrets() (concourse.WebSecrets, error) {
	if c.NewSecrets != nil {
		return c.NewSecrets()
	}
	return concourse.NewWebSecrets()
}

// secretContent is what the application's secret should hold. A new encryption
// key makes the one before the old one, with which Concourse reads what it then
// encrypts anew (D29).
func secretContent(o Observed) map[string]string {
	s := maps.Clone(o.Facts.Web.Secret)
	if s == nil {
		s = map[string]string{}
	}
	if key := o.Config.EncryptionKey; o.Facts.Leader && key != s[encryptionKey] {
		s[oldEncryptionKey], s[encryptionKey] = s[encryptionKey], key
	}
	for key, value := range s {
		if value == "" {
			delete(s, key)
		}
	}
	return s
}
