package model

import (
	"context"
	"slices"
	"strings"
	"time"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
)

// The endpoints in metadata.yaml.
const (
	flight       = "flight"
	peers        = "peers"
	tsa          = "tsa"
	postgresql   = "postgresql"
	vaultKV      = "vault-kv"
	certificates = "certificates"
	monitoring   = "monitoring"
	cosAgent     = "cos-agent"
	tracing      = "tracing"
	haproxyRoute = "haproxy-route"
	fleetRoute   = "fleet-route"
	ldap         = "ldap"
	catalogue    = "catalogue"

	receiveCACerts = "receive-ca-certs"
)

// observer reads the data that depends on the unit's role.
type observer struct {
	t       juju.Model
	e       juju.Event
	last    Facts
	now     time.Time
	leader  bool
	tracked []string
	forced  []string
}

// role finds out whether this unit leads, if the mode depends on it, and reads the data of
// the role.
func (o *observer) role(ctx context.Context, f *Facts) (err error) {
	mode := f.Mode()
	if mode == config.ModeWorker && !Resyncs(o.e.Name) {
		f.Role = WorkerRole
		return nil
	}
	if o.leader, err = o.t.IsLeader(ctx); err != nil {
		return jujuerrors.Annotate(err, "cannot observe who leads")
	}
	f.Leader = o.leader
	if f.Role = roleOf(mode, f.Leader); f.Role == "" {
		return nil // the status shows the invalid option
	}
	if f.Peer, err = o.link(ctx, peers); err != nil {
		return err
	}
	ids, err := o.relations(ctx, tsa)
	if err != nil {
		return err
	}
	if f.TSAs, err = o.entered(ctx, ids, unitOnly); err != nil {
		return err
	}
	if f.Route, err = o.route(ctx, haproxyRoute); err != nil {
		return err
	}
	if f.FleetRoute, err = o.route(ctx, fleetRoute); err != nil {
		return err
	}
	if !f.Role.Web() || Leaving(o.e.Name) {
		return nil
	}
	f.Web, err = o.web(ctx, f)
	return jujuerrors.Annotate(err, "cannot observe the web's needs")
}

// options reads the secrets that options name. If Juju refuses a secret, its option has a
// problem. Any other failure ends the hook, which Juju runs again.
func (o *observer) options(ctx context.Context, raw map[string]any) (config.Secrets, error) {
	var all config.Secrets
	for _, uri := range config.SecretURIs(raw) {
		content, err := o.secret(ctx, uri)
		v := config.SecretValue{Content: content, Problem: juju.SecretRefusal(err)}
		if err != nil && v.Problem == "" {
			return nil, jujuerrors.Annotatef(err, "cannot read %s", uri)
		}
		if all == nil {
			all = config.Secrets{}
		}
		all[uri] = v
	}
	return all, nil
}

// secret reads the newest revision. The first read, and the read in secret-changed, track
// the revision, so that Juju runs secret-changed for the next one.
func (o *observer) secret(ctx context.Context, id string) (content map[string]string, err error) {
	switch {
	case o.e.Name == "secret-changed" && bareID(o.e.SecretID) == bareID(id):
		content, err = o.t.SecretRefresh(ctx, id)
	case slices.Contains(o.last.Tracked, bareID(id)):
		content, err = o.t.SecretPeek(ctx, id)
	default:
		content, err = o.t.SecretGet(ctx, id)
	}
	if err == nil && !slices.Contains(o.tracked, bareID(id)) {
		o.tracked = append(o.tracked, bareID(id))
	}
	return content, err
}

// bareID returns a secret's id without scheme and model. Juju writes both forms.
func bareID(id string) string { return id[strings.LastIndexAny(id, ":/")+1:] }
