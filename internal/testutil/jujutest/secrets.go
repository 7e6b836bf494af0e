package jujutest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/charm/juju"
)

// Secret is a secret of the unit, of its application, or of another one.
type Secret struct {
	ID          string // 20 characters, without "secret:"
	Label       string // the owner's; a consumer's own label for a foreign one
	Description string
	Rotate      string
	Owner       string // a unit or an application
	Revisions   []map[string]string
	Tracked     int // revision that this unit reads, from 1; 0 before the first read
	Grants      []Grant
	Granted     bool // a foreign one: this unit may read it
}

// Grant is one secret-grant: Subject is a unit or an application.
type Grant struct{ Relation, Subject string }

// AddSecret puts a secret of another application into the model, readable.
func (m *Model) AddSecret(owner string, content map[string]string) *Secret {
	s := &Secret{ID: m.newSecretID(), Owner: owner, Revisions: []map[string]string{content}, Granted: true}
	m.Secrets = append(m.Secrets, s)
	return s
}

// newSecretID has the shape of an xid: 12 bytes in base32hex.
func (m *Model) newSecretID() string {
	m.secrets++
	return fmt.Sprintf("c0%017d0", m.secrets)
}

var (
	secretFlags = []string{"description", "expire", "file", "label", "owner", "rotate"}
	secretKey   = regexp.MustCompile(`^([a-z](?:-?[a-z0-9]){2,})$`)
	secretURI   = regexp.MustCompile(`^(?:[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}/)?([0-9a-v]{20})$`)
	rotations   = []string{"never", "hourly", "daily", "weekly", "monthly", "quarterly", "yearly"}
)

// secretID takes "secret:ID", "secret://MODEL/ID" and a bare id.
func secretID(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", usageError{err}
	}
	if u.Scheme != "" && u.Scheme != "secret" {
		return "", usagef("secret URI scheme %q not valid", u.Scheme)
	}
	id := strings.TrimLeft(u.Path, "/")
	if id == "" {
		id = u.Opaque
	}
	found := secretURI.FindStringSubmatch(id)
	if found == nil {
		return "", usagef("secret URI %q not valid", s)
	}
	return found[1], nil
}

func (c *Context) owned(s *Secret) bool {
	return s.Owner == c.model.Unit || s.Owner == c.model.App() && c.model.Leader
}

// ownedByLabel looks among the secrets that this unit may change.
func (c *Context) ownedByLabel(label string) *Secret {
	k := slices.IndexFunc(c.book.Secrets, func(s *Secret) bool { return c.owned(s) && s.Label == label })
	if k < 0 {
		return nil
	}
	return c.book.Secrets[k]
}

func secretAdd(i *invocation) error {
	if len(i.args) == 0 && i.flags["file"] == "" {
		return usagef("missing secret value or filename")
	}
	content, err := i.secretContent(i.args)
	if err != nil {
		return err
	}
	s := &Secret{Owner: i.model.App(), Revisions: []map[string]string{content}}
	if i.flags["owner"] == "unit" {
		s.Owner = i.model.Unit
	}
	switch {
	case len(content) == 0:
		return errors.New("empty secret value not valid")
	case s.Owner == i.model.App() && !i.model.Leader:
		return errNotLeader
	}
	i.describe(s)
	for id := range i.created {
		if o := i.book.secret(id); o != nil && s.Label != "" && o.Label == s.Label {
			return fmt.Errorf("secret with label %q already exists", s.Label)
		}
	}
	s.ID = i.model.newSecretID()
	i.created[s.ID] = true
	i.book.Secrets = append(i.book.Secrets, s)
	fmt.Fprintf(&i.stdout, "secret://%s/%s\n", i.model.ModelUUID, s.ID)
	return nil
}

func (i *invocation) describe(s *Secret) {
	for flag, field := range map[string]*string{"label": &s.Label, "description": &s.Description, "rotate": &s.Rotate} {
		if v := i.flags[flag]; v != "" {
			*field = v
		}
	}
}

func secretSet(i *invocation) error {
	s, err := i.secretArg()
	if err != nil {
		return err
	}
	content, err := i.secretContent(i.args[1:])
	if err != nil {
		return err
	}
	if s == nil || !i.mayChange(s) {
		return i.refuse(s, i.args[0])
	}
	i.describe(s)
	latest := s.Revisions[len(s.Revisions)-1]
	switch {
	case len(content) == 0 || maps.Equal(content, latest):
	case len(s.Revisions) > i.committed(s) || i.created[s.ID]: // a hook makes one revision at most
		s.Revisions[len(s.Revisions)-1] = content
	default:
		s.Revisions = append(s.Revisions, content)
	}
	return nil
}

// secretArg is the secret that the first argument names, nil when there is none.
func (i *invocation) secretArg() (*Secret, error) {
	if len(i.args) == 0 {
		return nil, usagef("missing secret URI")
	}
	id, err := secretID(i.args[0])
	if err != nil {
		return nil, err
	}
	return i.book.secret(id), nil
}

func (c *Context) mayChange(s *Secret) bool { return c.owned(s) }

// refuse is how Juju treats a change of a secret that is not this unit's, its
// application's too where it does not lead: the tool takes it, and the controller
// refuses it when the hook ends.
func (i *invocation) refuse(s *Secret, uri string) error {
	switch {
	case s == nil:
		i.failing = fmt.Errorf("secret %q not found", uri)
	case s.Owner == i.model.App():
		i.failing = fmt.Errorf("%q is not leader of %q", i.model.Unit, i.model.App())
	default:
		i.failing = errPermission
	}
	return nil
}

func (c *Context) committed(s *Secret) int {
	if m := c.model.secret(s.ID); m != nil {
		return len(m.Revisions)
	}
	return 0
}

func secretGrant(i *invocation) error {
	s, err := i.secretArg()
	if err != nil {
		return err
	}
	r, err := i.relation()
	if err != nil {
		return usageError{err}
	}
	g := Grant{Relation: r.Name(), Subject: r.RemoteApp}
	if unit := i.flags["unit"]; unit != "" {
		switch {
		case !unitName.MatchString(unit):
			return usagef("unit %q not valid", unit)
		case juju.AppOf(unit) != r.RemoteApp:
			return usagef("cannot specify unit %q in relation to application %q", unit, r.RemoteApp)
		}
		g.Subject = unit
	}
	if err := i.noMore(1); err != nil {
		return err
	}
	if s == nil || !i.owned(s) {
		id, _ := secretID(i.args[0])
		return fmt.Errorf("secret %q not found", id)
	}
	for _, have := range s.Grants {
		switch {
		case have.Relation != g.Relation:
		case have.Subject == g.Subject || have.Subject == r.RemoteApp:
			return nil
		case g.Subject == r.RemoteApp:
			return errors.New("any unit level grants need to be revoked before granting access to the corresponding application")
		}
	}
	s.Grants = append(s.Grants, g)
	return nil
}

func secretRemove(i *invocation) error {
	s, err := i.secretArg()
	if err != nil {
		return err
	}
	if err := i.noMore(1); err != nil {
		return err
	}
	revision := 0
	if v := i.flags["revision"]; v != "" {
		if revision, err = strconv.Atoi(v); err != nil {
			return usagef("invalid value %q for option --revision: strconv.ParseInt: parsing %q: invalid syntax", v, v)
		}
	}
	if s == nil || !i.mayChange(s) {
		return i.refuse(s, i.args[0])
	}
	if revision > len(s.Revisions) {
		i.failing = fmt.Errorf("secret revision %d not found", revision)
		return nil
	}
	if revision > 0 {
		s.Revisions[revision-1] = nil // the others keep their numbers
		if slices.ContainsFunc(s.Revisions, func(c map[string]string) bool { return c != nil }) {
			return nil
		}
	}
	i.book.Secrets = slices.DeleteFunc(i.book.Secrets, func(o *Secret) bool { return o.ID == s.ID })
	return nil
}

// decodeFile reads --file of the secret tools: JSON, else YAML.
func decodeFile(data []byte) (map[string]string, error) {
	out := map[string]string{}
	if json.Unmarshal(data, &out) == nil {
		return out, nil
	}
	return yamlStrings(data)
}
