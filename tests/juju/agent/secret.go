package agent

import (
	"encoding/base64"
	"slices"

	"github.com/juju/errors"
	"github.com/juju/names/v5"

	apiservererrors "github.com/juju/juju/apiserver/errors"
	"github.com/juju/juju/core/secrets"
	"github.com/juju/juju/rpc/params"
)

// Secret is one secret of the model.
type Secret struct {
	ID, Label, Description string
	Owner                  string              // a unit or an application
	Revisions              []map[string]string // base64; nil is a removed one
	Rotate                 secrets.RotatePolicy

	checksum  string
	access    map[string]access    // by the tag of who may
	consumers map[string]*consumer // by the name of the unit that reads
}

type access struct {
	role  secrets.SecretRole
	scope string // tag of the relation for as long as which it holds
}

// consumer is what the controller keeps of a unit that has read a secret.
type consumer struct {
	label           string
	current, latest int
}

// AddSecret adds a secret of another application. No unit can read it before Grant.
func (m *Model) AddSecret(owner string, content map[string]string) *Secret {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &Secret{ID: secrets.NewURI().ID, Owner: owner, Revisions: []map[string]string{encoded(content)},
		access: map[string]access{appTag(owner): {role: secrets.RoleManage}}, consumers: map[string]*consumer{}}
	m.secrets = append(m.secrets, s)
	return s
}

// Grant lets an application or a unit read the secret while the relation lasts.
func (m *Model) Grant(s *Secret, r *Relation, to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tag := appTag(to)
	if names.IsValidUnit(to) {
		tag = unitTag(to)
	}
	s.access[tag] = access{secrets.RoleView, r.tag()}
}

// Update gives a secret of another program a new revision.
func (m *Model) Update(s *Secret, content map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.add(encoded(content))
}

func encoded(content map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range content {
		out[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	return out
}

// Secrets lists the secrets of an owner, a unit or an application.
func (m *Model) Secrets(owner string) (out []*Secret) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.secrets {
		if s.Owner == owner {
			out = append(out, s)
		}
	}
	return out
}

// Tracked is the revision that a unit reads without --refresh and --peek, 0 for
// one that has not read the secret.
func (m *Model) Tracked(s *Secret, unit string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := s.consumers[unit]; c != nil {
		return c.current
	}
	return 0
}

func (s *Secret) uri(m *Model) *secrets.URI { return (&secrets.URI{ID: s.ID}).WithSource(m.uuid) }

// add is secretsStore.UpdateSecret: every consumer hears of the new revision.
func (s *Secret) add(content map[string]string) {
	s.Revisions = append(s.Revisions, content)
	for _, c := range s.consumers {
		c.latest = len(s.Revisions)
	}
}

func (m *Model) secret(uri string) (*Secret, error) {
	parsed, err := secrets.ParseURI(uri)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(m.secrets, func(s *Secret) bool { return s.ID == parsed.ID })
	if i < 0 {
		return nil, errors.NotFoundf("secret %q", parsed.String())
	}
	return m.secrets[i], nil
}

// canRead is secrets.CanRead: what the unit or its application was granted, and
// every unit reads what its application owns.
func (u *Unit) canRead(s *Secret) bool {
	return s.access[unitTag(u.Name)].role.Allowed(secrets.RoleView) || s.access[appTag(u.app.Name)].role.Allowed(secrets.RoleView)
}

// canManage is secrets.CanManage: the owning unit, or the leader for its
// application's.
func (u *Unit) canManage(s *Secret) error {
	switch {
	case s.access[unitTag(u.Name)].role.Allowed(secrets.RoleManage):
		return nil
	case !s.access[appTag(u.app.Name)].role.Allowed(secrets.RoleManage):
		return apiservererrors.ErrPerm
	case !u.leads():
		return errNotLeader(u)
	}
	return nil
}

func (u *Unit) owns(s *Secret) bool { return s.Owner == u.Name || s.Owner == u.app.Name }

// getContent is SecretsManagerAPI.getSecretContent for secrets of this model.
func (u *Unit) getContent(arg params.GetSecretContentArg) (map[string]string, error) {
	m := u.model
	var s *Secret
	label := arg.Label
	if arg.URI != "" {
		found, err := m.secret(arg.URI)
		if err != nil {
			return nil, err
		}
		s = found
		if u.owns(s) {
			if label != "" && label != s.Label && (s.Owner == u.Name || u.leads()) {
				s.Label = label
			}
			label = "" // the owner's label serves every unit of the application
		}
	} else {
		i := slices.IndexFunc(m.secrets, func(s *Secret) bool { return u.owns(s) && s.Label == label })
		if i < 0 {
			i = slices.IndexFunc(m.secrets, func(s *Secret) bool { c := s.consumers[u.Name]; return c != nil && c.label == label })
		}
		if i < 0 {
			return nil, errors.NotFoundf("consumer label %q", label)
		}
		s, label = m.secrets[i], ""
	}
	if !u.canRead(s) {
		return nil, apiservererrors.ErrPerm
	}
	revision := u.consume(s, arg.Refresh, arg.Peek, label)
	if s.Revisions[revision-1] == nil {
		return nil, errors.NotFoundf("secret revision \"%s/%d\"", s.ID, revision)
	}
	return s.Revisions[revision-1], nil
}

// consume is SecretsManagerAPI.getConsumedRevision. The first read of any kind,
// --peek too, makes the unit a consumer that tracks the newest revision.
func (u *Unit) consume(s *Secret, refresh, peek bool, label string) int {
	latest := len(s.Revisions)
	c := s.consumers[u.Name]
	if c == nil {
		c = &consumer{current: latest, latest: latest}
		s.consumers[u.Name] = c
	}
	if label != "" {
		c.label = label
	}
	if refresh {
		c.current = latest
	}
	if peek {
		return latest
	}
	return c.current
}

// metadata is secrets.GetSecretMetadata: the unit's own secrets, and for the leader also
// its application's.
func (u *Unit) metadata() (out []params.ListSecretMetadataResult) {
	for _, s := range u.model.secrets {
		owner := unitTag(u.Name)
		switch {
		case s.Owner == u.app.Name && u.leads():
			owner = appTag(u.app.Name)
		case s.Owner != u.Name:
			continue
		}
		md := params.ListSecretMetadataResult{URI: s.uri(u.model).String(), OwnerTag: owner, Label: s.Label, Description: s.Description,
			RotatePolicy: s.Rotate.String(), LatestRevision: len(s.Revisions), LatestRevisionChecksum: s.checksum}
		for tag, a := range s.access {
			if a.role == secrets.RoleView {
				md.Access = append(md.Access, params.AccessInfo{TargetTag: tag, ScopeTag: a.scope, Role: a.role})
			}
		}
		out = append(out, md)
	}
	return out
}

// URI is how a secret is named in a bag.
func (m *Model) URI(s *Secret) string { return s.uri(m).String() }
