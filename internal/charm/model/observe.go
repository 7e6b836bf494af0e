package model

import (
	"context"
	"slices"
	"strings"
	"time"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/juju"
)

// The endpoints, as metadata.yaml has them.
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
	ldap         = "ldap"

	receiveCACerts = "receive-ca-certs"
)

// observer asks Juju for what depends on the unit's role.
type observer struct {
	t       *juju.Tools
	e       juju.Event
	last    Facts
	now     time.Time
	leader  bool
	tracked []string
}

// role asks whether this unit leads, where the mode makes that matter, and
// then what its role needs to know.
func (o *observer) role(ctx context.Context, f *Facts) (err error) {
	mode := f.Mode()
	if mode == "worker" && !Resyncs(o.e.Name) {
		f.Role = WorkerRole
		return nil
	}
	if o.leader, err = o.t.IsLeader(ctx); err != nil {
		return jujuerrors.Annotate(err, "cannot observe who leads")
	}
	f.Leader = o.leader
	if f.Role = roleOf(mode, f.Leader); f.Role == "" {
		return nil // the option's problem is the status
	}
	if f.Peer, err = o.link(ctx, peers); err != nil {
		return err
	}
	ids, err := o.relations(ctx, tsa)
	if err != nil {
		return err
	}
	if f.TSAs, err = o.entered(ctx, ids, false); err != nil {
		return err
	}
	if f.Route, err = o.route(ctx); err != nil {
		return err
	}
	if f.Role != WebRole || Leaving(o.e.Name) {
		return nil
	}
	f.Web, err = o.web(ctx, f)
	return jujuerrors.Annotate(err, "cannot observe what the web needs")
}

// options reads the secrets that options name. One that Juju refuses is a problem of
// its option; any other failure ends the hook, which Juju runs again.
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

// secret reads the newest revision. The first time, and in the hook that tells
// of a new one, it is read so that Juju tells of the next.
func (o *observer) secret(ctx context.Context, id string) (content map[string]string, err error) {
	switch {
	case o.e.Name == "secret-changed" && bareID(o.e.SecretID) == bareID(id):
		content, err = o.t.SecretGet(ctx, id, "", true)
	case slices.Contains(o.last.Tracked, bareID(id)):
		content, err = o.t.SecretPeek(ctx, id)
	default:
		content, err = o.t.SecretGet(ctx, id, "", false)
	}
	if err == nil && !slices.Contains(o.tracked, bareID(id)) {
		o.tracked = append(o.tracked, bareID(id))
	}
	return content, err
}

// bareID is a secret's id without scheme and model: Juju writes it both ways.
func bareID(id string) string {
	return id[strings.LastIndexAny(id, ":/")+1:]
}
