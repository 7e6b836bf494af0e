package jujutest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
)

// Secret describes a secret of the unit, of its application, or of another application.
type Secret struct {
	ID          string // 20 characters, without "secret:"
	Label       string // the owner's; a consumer's own label for a foreign secret
	Description string
	Rotate      string
	Owner       string // a unit or an application
	Revisions   []map[string]string
	Tracked     int // revision that this unit reads, from 1; 0 before the first read
	Grants      []Grant
	Granted     bool // for a foreign secret: this unit may read it
}

// Grant records one secret-grant. Subject is a unit or an application.
type Grant struct{ Relation, Subject string }

// AddSecret adds a readable secret of another application to the model.
func (m *Model) AddSecret(owner string, content map[string]string) *Secret {
	s := &Secret{ID: m.newSecretID(), Owner: owner, Revisions: []map[string]string{content}, Granted: true}
	m.Secrets = append(m.Secrets, s)
	return s
}

// newSecretID returns an id in the form of an xid: 12 bytes in base32hex.
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

// secretID accepts "secret:ID", "secret://MODEL/ID" and a bare id.
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

// ownedByLabel searches the secrets that this unit may change.
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
	case len(s.Revisions) > i.committed(s) || i.created[s.ID]: // a hook creates at most one revision
		s.Revisions[len(s.Revisions)-1] = content
	default:
		s.Revisions = append(s.Revisions, content)
	}
	return nil
}

// secretArg returns the secret of the first argument, or nil if it does not exist.
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

// refuse records a change of a secret that this unit may not change, including its
// application's secret if it is not the leader. As in Juju, the tool accepts it, and the
// controller refuses it when the hook ends.
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
			return errors.New("any unit level grants need to be revoked before granting access to the " +
				"corresponding application")
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

// decodeFile decodes --file of the secret tools: JSON, otherwise YAML.
func decodeFile(data []byte) (map[string]string, error) {
	out := map[string]string{}
	if json.Unmarshal(data, &out) == nil {
		return out, nil
	}
	return yamlStrings(data)
}

// maxSecret is the limit of one value and of all together, base64 encoded.
const maxSecret = 1000 * 1000

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func yamlStrings(data []byte) (map[string]string, error) {
	out := map[string]string{}
	return out, yaml.Unmarshal(data, &out)
}

// secretContent checks the options that secret-add and secret-set share and returns the
// decoded content.
func (i *invocation) secretContent(args []string) (map[string]string, error) {
	if v := i.flags["expire"]; v != "" && !isExpiry(v) {
		return nil, usagef("expire time or duration %q not valid", v)
	}
	if v := i.flags["rotate"]; v != "" && !slices.Contains(rotations, v) {
		return nil, usagef("rotate policy %q not valid", v)
	}
	if v, set := i.flags["owner"]; set && v != "application" && v != "unit" {
		return nil, usagef("secret owner %q not valid", v)
	}
	raw := map[string]string{}
	for _, a := range args {
		// A value may end in base64's own "=".
		n := strings.IndexByte(strings.TrimRight(a, "="), '=')
		if n < 1 {
			return nil, usagef("key value %q not valid", a)
		}
		key, value := a[:n], a[n+1:]
		if name, ok := strings.CutSuffix(key, "#file"); ok {
			data, err := readFile(value)
			if err != nil {
				return nil, usagef("reading content for secret key %q: %w", name, err)
			}
			key, value = name, string(data)
		}
		raw[key] = value
	}
	out := map[string]string{}
	if err := decodeInto(out, raw); err != nil {
		return nil, err
	}
	if path := i.flags["file"]; path != "" {
		data, err := readFile(path)
		if err != nil {
			return nil, usageError{err}
		}
		if raw, err = decodeFile(data); err != nil {
			return nil, usageError{err}
		}
		if err := decodeInto(out, raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func decodeInto(out, raw map[string]string) error {
	total := 0
	for key, value := range raw {
		name, encoded := strings.CutSuffix(key, "#base64")
		if !secretKey.MatchString(name) {
			return usagef("key %q not valid", name)
		}
		if encoded {
			// Juju accepts it and fails when it is read; this fails at once.
			data, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				return usageError{fmt.Errorf("key %q: %w", name, err)}
			}
			value = string(data)
		}
		size := base64.StdEncoding.EncodedLen(len(value))
		if size > maxSecret {
			return usagef("base64 encoded secret content for key %q too large: %d bytes", name, size)
		}
		out[name] = value
		total += size
	}
	if total > maxSecret {
		return usagef("base64 encoded secret content too large: %d bytes", total)
	}
	return nil
}

func isExpiry(v string) bool {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if _, err := time.Parse(layout, v); err == nil {
			return true
		}
	}
	d, err := time.ParseDuration(v)
	return err == nil && d > 0
}
