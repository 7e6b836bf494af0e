package agent

import (
	"slices"

	"github.com/juju/errors"
	"github.com/juju/names/v5"

	apiservererrors "github.com/juju/juju/apiserver/errors"
	"github.com/juju/juju/core/leadership"
	"github.com/juju/juju/core/secrets"
	"github.com/juju/juju/rpc/params"
)

func errNotLeader(u *Unit) error { return leadership.NewNotLeaderError(u.Name, u.app.Name) }

// commit is UniterAPI.commitHookChangesForOneUnit. As there, what concerns
// secrets is done before the rest and one after the other; relation data, ports
// and state come together or not at all.
func (u *Unit) commit(a params.CommitHookChangesArg) error {
	m := u.model
	for _, rs := range a.RelationUnitSettings {
		r := m.relationByTag(rs.Relation)
		if _, ours := r.endOrNone(u.app.Name); rs.Unit != a.Tag || !ours {
			return apiservererrors.ErrPerm
		}
	}
	for _, c := range a.SecretCreates {
		if err := u.createSecret(c); err != nil {
			return errors.Annotate(err, "creating secrets")
		}
	}
	for _, c := range a.SecretUpdates {
		if err := u.updateSecret(c); err != nil {
			return errors.Annotate(err, "updating secrets")
		}
	}
	for _, uri := range a.TrackLatest {
		s, err := m.secret(uri)
		if err != nil {
			return errors.Annotate(err, "updating secret tracked revisions")
		}
		u.consume(s, true, false, "")
	}
	for _, g := range a.SecretGrants {
		if err := u.grantSecret(g, true); err != nil {
			return errors.Annotate(err, "granting secrets access")
		}
	}
	for _, g := range a.SecretRevokes {
		if err := u.grantSecret(g, false); err != nil {
			return errors.Annotate(err, "revoking secrets access")
		}
	}
	for _, d := range a.SecretDeletes {
		if err := u.deleteSecret(d); err != nil && !errors.Is(err, errors.NotFound) {
			return errors.Annotate(err, "removing secrets")
		}
	}
	for _, rs := range a.RelationUnitSettings {
		if len(rs.ApplicationSettings) > 0 && !u.leads() {
			return errors.Annotatef(errNotLeader(u), "prerequisites failed")
		}
	}
	for _, rs := range a.RelationUnitSettings {
		r := m.relationByTag(rs.Relation)
		r.write(u.Name, rs.Settings)
		r.write(u.app.Name, rs.ApplicationSettings)
	}
	for _, p := range a.OpenPorts {
		if !slices.Contains(u.Ports, p) {
			u.Ports = append(u.Ports, p)
		}
	}
	u.Ports = slices.DeleteFunc(u.Ports, func(p params.EntityPortRange) bool { return slices.Contains(a.ClosePorts, p) })
	if a.SetUnitState != nil && a.SetUnitState.CharmState != nil {
		u.State = *a.SetUnitState.CharmState
	}
	return nil
}

func (r *Relation) endOrNone(app string) (End, bool) {
	if r == nil {
		return End{}, false
	}
	return r.end(app)
}

// createSecret is SecretsManagerAPI.createSecret with OwnerToken: a unit's own,
// or by the leader its application's.
func (u *Unit) createSecret(c params.CreateSecretArg) error {
	owner, err := names.ParseTag(c.OwnerTag)
	switch {
	case err != nil:
		return err
	case len(c.Content.Data) == 0:
		return errors.NotValidf("empty secret value")
	case owner.Id() != u.Name && owner.Id() != u.app.Name:
		return apiservererrors.ErrPerm
	case owner.Id() != u.Name && !u.leads():
		return errNotLeader(u)
	}
	uri, err := secrets.ParseURI(*c.URI)
	if err != nil {
		return err
	}
	s := &Secret{ID: uri.ID, Owner: owner.Id(), Revisions: []map[string]string{c.Content.Data}, checksum: c.Content.Checksum,
		access: map[string]access{c.OwnerTag: {secrets.RoleManage, c.OwnerTag}}, consumers: map[string]*consumer{}}
	if err := u.describe(s, c.UpsertSecretArg); err != nil {
		return err
	}
	u.model.secrets = append(u.model.secrets, s)
	return nil
}

// describe keeps labels apart as state.uniqueSecretOwnerLabelOps: an owner's are
// unique, and an application and its units do not share one.
func (u *Unit) describe(s *Secret, c params.UpsertSecretArg) error {
	if c.Label != nil && *c.Label != s.Label {
		for _, o := range u.model.secrets {
			if o != s && o.Label == *c.Label && appOf(o.Owner) == u.app.Name && (o.Owner == s.Owner || o.Owner == u.app.Name || s.Owner == u.app.Name) {
				return errors.AlreadyExistsf("secret with label %q", *c.Label)
			}
		}
		s.Label = *c.Label
	}
	if c.Description != nil {
		s.Description = *c.Description
	}
	if c.RotatePolicy != nil {
		s.Rotate = *c.RotatePolicy
	}
	return nil
}

func (u *Unit) updateSecret(c params.UpdateSecretArg) error {
	s, err := u.manage(c.URI)
	if err != nil {
		return err
	}
	if err := u.describe(s, c.UpsertSecretArg); err != nil {
		return err
	}
	if len(c.Content.Data) > 0 {
		s.add(c.Content.Data)
		s.checksum = c.Content.Checksum
	}
	return nil
}

func (u *Unit) manage(uri string) (*Secret, error) {
	s, err := u.model.secret(uri)
	if err != nil {
		return nil, err
	}
	return s, u.canManage(s)
}

// grantSecret is SecretsManagerAPI.secretsGrantRevoke: the scope and the subject must be
// there.
func (u *Unit) grantSecret(g params.GrantRevokeSecretArg, grant bool) error {
	s, err := u.manage(g.URI)
	if err != nil {
		return err
	}
	for _, subject := range g.SubjectTags {
		if !grant {
			delete(s.access, subject)
			continue
		}
		tag, err := names.ParseTag(subject)
		if err != nil {
			return err
		}
		switch app := u.model.apps[appOf(tag.Id())]; {
		case app == nil:
			return errors.NotFoundf("cannot change access to %q for %q: invalid subject reference: application %q", g.URI, subject, appOf(tag.Id()))
		case g.ScopeTag != "" && u.model.relationByTag(g.ScopeTag) == nil:
			return errors.NotFoundf("cannot change access to %q for %q: invalid scope reference: relation", g.URI, subject)
		}
		s.access[subject] = access{secrets.SecretRole(g.Role), g.ScopeTag}
	}
	return nil
}

// deleteSecret removes revisions, and with the last one the secret.
func (u *Unit) deleteSecret(d params.DeleteSecretArg) error {
	s, err := u.manage(d.URI)
	if err != nil {
		return err
	}
	for _, n := range d.Revisions {
		if n < 1 || n > len(s.Revisions) || s.Revisions[n-1] == nil {
			return errors.NotFoundf("secret revision %d", n)
		}
		s.Revisions[n-1] = nil
	}
	if len(d.Revisions) == 0 || !slices.ContainsFunc(s.Revisions, func(c map[string]string) bool { return c != nil }) {
		u.model.secrets = slices.DeleteFunc(u.model.secrets, func(o *Secret) bool { return o == s })
	}
	return nil
}
