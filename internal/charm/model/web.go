package model

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// Web holds the part of the Juju model that only a web needs.
type Web struct {
	// Address is for workers and users, PeerAddress for other webs. Both are "" if Juju has
	// not assigned them yet.
	Address     string `json:"address"`
	PeerAddress string `json:"peer_address"`
	// Peers has the addresses of the other webs. It is empty with mode=auto.
	Peers []string `json:"peers,omitempty"`

	SecretID string            `json:"secret_id"` // secret with the application's keys and passwords, or ""
	Secret   map[string]string `json:"secret"`    // its content

	Workers  map[string]Worker `json:"workers"`            // by relation and unit, "tsa:3 gpu/0"
	Departed []DepartedWorker  `json:"departed,omitempty"` // workers that left and may still be connected

	Database     *Relation `json:"database,omitempty"`
	Vault        *Relation `json:"vault,omitempty"`
	Egress       []string  `json:"egress,omitempty"` // of the endpoint vault-kv, CIDR
	Certificates *Relation `json:"certificates,omitempty"`
	LDAP         *Relation `json:"ldap,omitempty"`
	Catalogue    *Relation `json:"catalogue,omitempty"`
}

// web reads everything that a web depends on.
func (o *observer) web(ctx context.Context, f *Facts) (*Web, error) {
	w := &Web{}
	var err error
	if w.Address, _, err = o.address(ctx, tsa); err != nil {
		return nil, err
	}
	if w.PeerAddress, _, err = o.address(ctx, peers); err != nil {
		return nil, err
	}
	w.Address = cmp.Or(w.Address, w.PeerAddress)
	if err := o.otherWebs(ctx, f, w); err != nil {
		return nil, err
	}
	if err := o.webSecret(ctx, f, w); err != nil {
		return nil, err
	}
	if err := o.workers(ctx, f, w); err != nil {
		return nil, err
	}
	if w.Database, err = o.link(ctx, postgresql); err == nil && w.Database != nil {
		err = o.database(ctx, w.Database)
	}
	if err != nil {
		return nil, err
	}
	if w.Vault, err = o.link(ctx, vaultKV); err == nil && w.Vault != nil {
		if _, w.Egress, err = o.address(ctx, vaultKV); err == nil {
			err = o.secrets(ctx, w.Vault, words(relation.VaultSecret(w.Vault.Remote, w.Vault.Own["nonce"])))
		}
	}
	if err != nil {
		return nil, err
	}
	if w.LDAP, err = o.link(ctx, ldap); err == nil && w.LDAP != nil {
		err = o.secrets(ctx, w.LDAP, words(relation.LDAPSecret(w.LDAP.Remote)))
	}
	if err != nil {
		return nil, err
	}
	if w.Certificates, err = o.link(ctx, certificates); err != nil {
		return nil, err
	}
	w.Catalogue, err = o.link(ctx, catalogue)
	return w, err
}

// address reads an endpoint's own addresses. "" is not an error, because a unit may have no
// network yet.
func (o *observer) address(ctx context.Context, endpoint string) (ingress string, egress []string, err error) {
	n, err := o.t.NetworkGet(ctx, endpoint)
	if refused, ok := errors.AsType[*juju.ToolError](err); ok && refused.Code == 1 {
		return "", nil, nil
	}
	return n.Ingress(), n.EgressSubnets, err
}

// database reads the secrets with the credentials. If there are none, it reads the units'
// databags of older versions of PostgreSQL's charm.
func (o *observer) database(ctx context.Context, l *Relation) (err error) {
	ids := relation.DatabaseSecrets(l.Remote)
	if len(ids) == 0 {
		l.Units, err = o.bags(ctx, l.ID)
		return err
	}
	return o.secrets(ctx, l, ids)
}

// otherWebs reads the addresses of the other webs, which need no proxy.
func (o *observer) otherWebs(ctx context.Context, f *Facts, w *Web) error {
	if f.Peer == nil || f.Mode() != config.ModeWeb {
		return nil
	}
	bags, err := o.bags(ctx, f.Peer.ID)
	for _, unit := range slices.Sorted(maps.Keys(bags)) {
		if a := bags[unit]["ingress-address"]; a != "" {
			w.Peers = append(w.Peers, a)
		}
	}
	return err
}

// WebSecretKey is the key of the peers' application databag with the id of the secret with
// the web's keys and passwords.
const WebSecretKey = "web-secret"

// Keys of the application's secret in addition to concourse.WebSecrets.
const (
	EncryptionKey    = "encryption-key"     // current key of the database
	OldEncryptionKey = "old-encryption-key" // previous key, for rows that are not encrypted again yet
	AdminPassword    = "admin-password"
	TSAHostKey       = "tsa-host-key"
	SessionKey       = "session-signing-key"
)

// webSecret reads the application's keys and passwords, which are the same on all webs (D3).
// If a hook of the leader failed before it published new ones, they are used again.
func (o *observer) webSecret(ctx context.Context, f *Facts, w *Web) (err error) {
	if f.Peer != nil {
		w.SecretID = f.Peer.Remote[WebSecretKey]
	}
	if w.SecretID != "" {
		w.Secret, err = o.secret(ctx, w.SecretID)
		return err
	}
	if o.last.Web != nil && f.Leader {
		w.Secret = maps.Clone(o.last.Web.Secret)
		// An invalid key is read from the disk again, or made again.
		for _, key := range []string{TSAHostKey, SessionKey} {
			if concourse.KeyProblem(w.Secret[key]) != "" {
				delete(w.Secret, key)
			}
		}
	}
	return nil
}

// words returns s as a list, which is empty if s is empty.
func words(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
