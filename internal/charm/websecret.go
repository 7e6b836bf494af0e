package charm

import (
	"errors"
	"io/fs"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/predecessor"
	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/concourse"
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
	paths := predecessor.WebFiles(c.Host.Root, concourse.WebFiles(cfg.SharedStorage != "none"))
	if f.Web.SecretID == "" && s[model.EncryptionKey] == "" && s[model.OldEncryptionKey] == "" {
		// The database may be encrypted with a key whose option is empty by now.
		s[model.EncryptionKey], s[model.OldEncryptionKey] = predecessor.Encryption(c.Host.Root, paths)
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
		s[model.AdminPassword] = web.PredecessorPassword(*f)
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

// FreshSecrets makes a web's keys and password.
func (c *Charm) FreshSecrets() (concourse.WebSecrets, error) {
	if c.NewSecrets != nil {
		return c.NewSecrets()
	}
	return concourse.NewWebSecrets()
}
