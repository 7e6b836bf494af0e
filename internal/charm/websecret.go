package charm

import (
	"cmp"
	"errors"
	"io/fs"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/predecessor"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// completeSecret makes missing keys and passwords of a new application, on its leader. Keys
// on this unit's disk and the password in the peers' databag are taken over from the
// predecessor (D33). New keys are kept in the facts until publishSecret runs after applying.
// An invalid key on the disk is refused and not replaced: the operator must decide about it.
func (c *Charm) completeSecret(f *model.Facts, cfg config.Config) (refused []error, err error) {
	if !f.Role.Web() || !f.Leader || f.Web == nil {
		return nil, nil
	}
	if f.Web.Secret == nil {
		f.Web.Secret = map[string]string{}
	}
	s := f.Web.Secret
	paths := predecessor.WebFiles(c.Host.Root, concourse.WebFiles(cfg.SharedStorage != config.StorageNone))
	if f.Web.SecretID == "" && s[model.EncryptionKey] == "" && s[model.OldEncryptionKey] == "" {
		// The database may be encrypted with a key that was removed from the option.
		s[model.EncryptionKey], s[model.OldEncryptionKey] = predecessor.Encryption(c.Host.Root, paths)
	}
	for _, k := range []struct{ name, path string }{{model.TSAHostKey, paths.TSAHostKey()},
		{model.SessionKey, paths.SessionKey()}} {
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
		s[key] = cmp.Or(s[key], value)
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
