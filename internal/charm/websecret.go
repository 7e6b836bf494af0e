package charm

import (
	"errors"
	"io/fs"
	"maps"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/model"
)

// completeSecret gives the leader of a new application its keys and password.
// What the predecessor left is taken over: the keys on this unit's disk, and
// the password in the peers' bag (D33). The leader tells Juju when all is
// applied; what it made is kept until then in the facts. A key on the disk that
// is of no use is refused, and nothing made in its place: whose it is decides.
func (c *Charm) completeSecret(f *model.Facts, cfg config.Config) (refused []error, err error) {
	if f.Role != model.WebRole || !f.Leader || f.Web == nil {
		return nil, nil
	}
	if f.Web.Secret == nil {
		f.Web.Secret = map[string]string{}
	}
	s := f.Web.Secret
	paths := concourse.WebFiles(cfg.SharedStorage != "none").TakeOverFrom(c.Host.Root)
	if f.Web.SecretID == "" && s[model.EncryptionKey] == "" && s[model.OldEncryptionKey] == "" {
		// The database may be encrypted with a key whose option is empty by now.
		s[model.EncryptionKey], s[model.OldEncryptionKey] = paths.PredecessorEncryption(c.Host.Root)
	}
	for _, k := range []struct{ name, path string }{{model.TSAHostKey, paths.TSAHostKey()}, {model.SessionKey, paths.SessionKey()}} {
		if s[k.name] != "" {
			continue
		}
		data, err := c.Host.ReadFile(k.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, jujuerrors.Annotatef(err, "cannot take over %s", k.path)
		}
		if problem := concourse.KeyProblem(string(data)); problem != "" {
			refused = append(refused, &concourse.KeyError{Path: k.path, Problem: problem})
			continue
		}
		s[k.name] = string(data)
	}
	if s[model.AdminPassword] == "" {
		s[model.AdminPassword] = predecessorPassword(*f)
	}
	if len(refused) > 0 || s[model.TSAHostKey] != "" && s[model.SessionKey] != "" && s[model.AdminPassword] != "" {
		return refused, nil
	}
	fresh, err := c.FreshSecrets()
	if err != nil {
		return nil, jujuerrors.Annotate(err, "cannot make the web's keys")
	}
	for key, value := range fresh.Content() {
		if s[key] == "" {
			s[key] = value
		}
	}
	return nil, nil
}

// predecessorPassword is the first user's that the Python charm keeps in the
// peers' bag, "" where there is none of use.
func predecessorPassword(f model.Facts) string {
	if f.Peer == nil || concourse.CheckPassword(f.Peer.Remote[model.AdminPassword]) != nil {
		return ""
	}
	return f.Peer.Remote[model.AdminPassword]
}

func (c *Charm) FreshSecrets() (concourse.WebSecrets, error) {
	if c.NewSecrets != nil {
		return c.NewSecrets()
	}
	return concourse.NewWebSecrets()
}

// secretContent is what the application's secret should hold. A new encryption
// key makes the one before the old one, with which Concourse reads what it then
// encrypts anew (D29). A password of the Python charm is the one in use, also
// where that charm was gone back to and made another.
func secretContent(o WebObserved) map[string]string {
	s := maps.Clone(o.Facts.Web.Secret)
	if s == nil {
		s = map[string]string{}
	}
	if key := o.Config.EncryptionKey; o.Facts.Leader && key != s[model.EncryptionKey] {
		s[model.OldEncryptionKey], s[model.EncryptionKey] = s[model.EncryptionKey], key
	}
	if p := predecessorPassword(o.Facts); o.Facts.Leader && p != "" {
		s[model.AdminPassword] = p
	}
	for key, value := range s {
		if value == "" {
			delete(s, key)
		}
	}
	return s
}

// Rotated are the keys that rotate-keys makes anew.
var Rotated = map[string][]string{
	"session":        {model.SessionKey},
	"tsa-host":       {model.TSAHostKey},
	"admin-password": {model.AdminPassword},
	"all":            {model.SessionKey, model.TSAHostKey, model.AdminPassword},
}

// rotatedBy is the value of rotate-keys that makes one part of the secret anew.
func rotatedBy(part string) string {
	for name, parts := range Rotated {
		if len(parts) == 1 && parts[0] == part {
			return name
		}
	}
	return "all"
}
