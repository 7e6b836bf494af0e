package charm

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/predecessor"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// secretLabel is the label of the application's secret. Only people read it.
const secretLabel = "concourse-web"

// setAppDatabag publishes the differences of this application's databag. Only the leader may
// write it.
func (c *Charm) setAppDatabag(ctx context.Context, id string, own, want map[string]string) error {
	return c.setAppKeys(ctx, id, own, want, slices.Collect(maps.Keys(want)))
}

// setUnitDatabag publishes the differences of this unit's databag.
func (c *Charm) setUnitDatabag(ctx context.Context, id string, own, want map[string]string) error {
	return c.setUnitKeys(ctx, id, own, want, slices.Collect(maps.Keys(want)))
}

// setAppKeys publishes the differences of the given keys in this application's databag. A
// key that want does not have is removed.
func (c *Charm) setAppKeys(ctx context.Context, id string, own, want map[string]string, keys []string) error {
	err := c.Tools.RelationSetApp(ctx, id, relation.Changes(own, want, keys))
	return jujuerrors.Annotatef(err, "cannot publish in %s", id)
}

// setUnitKeys publishes the differences of the given keys in this unit's databag. A key
// that want does not have is removed.
func (c *Charm) setUnitKeys(ctx context.Context, id string, own, want map[string]string, keys []string) error {
	err := c.Tools.RelationSet(ctx, id, relation.Changes(own, want, keys))
	return jujuerrors.Annotatef(err, "cannot publish in %s", id)
}

// publishWorkerKey publishes this worker's key and GPUs in flight and, with mode=auto, to
// the peers. Every hook calls it, so a key is published even if it was made late (D20).
func (c *Charm) publishWorkerKey(ctx context.Context, facts model.Facts, want Desired) error {
	// The plan has made sure that this file matches the private key.
	key, err := c.Host.ReadText(concourse.WorkerKeyPublic)
	if err != nil {
		return jujuerrors.Annotate(err, "cannot publish the worker's key")
	}
	id, _ := concourse.ReadWorkerID(c.Host.Root, concourse.WorkFolder(want.Release.Shared))
	kept, _ := predecessor.WorkerName(c.Host.Root, concourse.WorkFolder(want.Release.Shared))
	now := c.Host.Now()
	version, _, _ := release.Installed(c.Host.Root)
	bagFor := func(own map[string]string) map[string]string {
		bag := relation.WorkerDatabag(key, role.WorkerName(kept, facts.Unit, id), version)
		maps.Copy(bag, relation.DrainDatabag(want.Worker.Drain))
		maps.Copy(bag, want.Worker.GPUs.After(own, now).Databag())
		return bag
	}
	for _, f := range facts.Flights {
		if err := c.setUnitDatabag(ctx, f.ID, f.Own, bagFor(f.Own)); err != nil {
			return err
		}
	}
	switch {
	case facts.Peer == nil:
		return nil
	case facts.LeaderIsWeb():
		return c.setUnitDatabag(ctx, facts.Peer.ID, facts.Peer.Own, bagFor(facts.Peer.Own))
	case facts.Leader: // the application has no web that would remove the predecessor's keys (D33)
		return c.setAppDatabag(ctx, facts.Peer.ID, facts.Peer.Remote, predecessorKeys(facts.Peer.Remote))
	}
	return nil
}

// publishWeb publishes the data of a web: its address and public key for workers, its keys
// for other webs in a secret, and requests to PostgreSQL, Vault, LDAP and the certificate
// authority.
func (c *Charm) publishWeb(ctx context.Context, d Decision) error {
	facts, want, w := d.Facts, d.Want, d.Facts.Web
	page := role.FleetPage(facts, d.Config.Web)
	published := map[string]string{"tsa-host": "", "tsa-public-key": "", "concourse-version": "",
		"fleet-page": ""}
	if want.Web.Up {
		public, err := c.Host.ReadText(concourse.WebFiles(want.Release.Shared).TSAHostKeyPublic())
		if err != nil {
			return jujuerrors.Annotate(err, "cannot publish the web's key")
		}
		version, _, _ := release.Installed(c.Host.Root)
		maps.Copy(published, relation.TSADatabag(net.JoinHostPort(w.Address, strconv.Itoa(wellknown.TSAPort)),
			public, version, page))
	}
	for _, t := range facts.TSAs {
		if err := c.setUnitDatabag(ctx, t.ID, t.Own, published); err != nil {
			return err
		}
	}
	if err := c.publishSecret(ctx, facts, want, published); err != nil {
		return err
	}
	if facts.Peer != nil && facts.Role == model.WebRole && facts.LeaderIsWeb() {
		key, err := c.Host.ReadText(concourse.WorkerKeyPublic)
		if err == nil {
			err = c.setUnitDatabag(ctx, facts.Peer.ID, facts.Peer.Own, map[string]string{"worker-public-key": key})
		}
		if err != nil {
			return jujuerrors.Annotate(err, "cannot publish the key of the worker that this unit can become")
		}
	}
	if l := w.Database; l != nil {
		if err := c.request(ctx, l, facts.Leader, relation.DatabaseRequest(),
			relation.DatabaseUnitRequest()); err != nil {
			return err
		}
	}
	if l := w.Vault; l != nil {
		nonce := l.Own["nonce"]
		if nonce == "" {
			nonce = c.NewID() + c.NewID() + c.NewID() + c.NewID()
		}
		app, unit := relation.VaultRequest(nonce, w.Egress)
		if err := c.request(ctx, l, facts.Leader, app, unit); err != nil {
			return err
		}
	}
	if l := w.LDAP; l != nil && facts.Leader {
		if err := c.setAppDatabag(ctx, l.ID, l.OwnApp, relation.LDAPRequest(c.Event.App(), facts.Model)); err != nil {
			return err
		}
	}
	if l := w.Catalogue; l != nil && facts.Leader {
		entry := relation.CatalogueEntry(c.Event.App(), page)
		if err := c.setAppDatabag(ctx, l.ID, l.OwnApp, entry); err != nil {
			return err
		}
	}
	if l := w.Certificates; l != nil && want.Web.Request != "" {
		return c.request(ctx, l, facts.Leader, nil, relation.CertificateDatabag(want.Web.Request))
	}
	return nil
}

func (c *Charm) request(ctx context.Context, l *model.Relation, leader bool, app, unit map[string]string) error {
	if leader {
		if err := c.setAppDatabag(ctx, l.ID, l.OwnApp, app); err != nil {
			return err
		}
	}
	return c.setUnitDatabag(ctx, l.ID, l.Own, unit)
}

// publishSecret writes the application's secret. The peers' databag gets its id and, with
// mode=auto, the web's address. The predecessor's secrets in that databag, which are in
// clear, are removed (D33).
func (c *Charm) publishSecret(ctx context.Context, facts model.Facts, want Desired, published map[string]string) error {
	// Without the peers' databag the secret's id would be lost. A later hook has the
	// databag.
	if !facts.Leader || want.Web.Secret == nil || facts.Peer == nil {
		return nil
	}
	id := facts.Web.SecretID
	s := juju.Secret{Label: secretLabel, Description: "Keys and passwords of the Concourse web",
		Content: want.Web.Secret}
	switch {
	case id == "":
		var err error
		if id, err = c.Tools.SecretAdd(ctx, s); err != nil {
			return jujuerrors.Annotate(err, "cannot store the web's keys in a secret")
		}
	case !maps.Equal(want.Web.Secret, facts.Web.Secret):
		if err := c.Tools.SecretSet(ctx, id, juju.Secret{Content: want.Web.Secret}); err != nil {
			return jujuerrors.Annotate(err, "cannot change the secret of the web's keys")
		}
	}
	held, err := role.ReadOptional(c.Host.Root, web.HoldFile)
	if err != nil {
		return jujuerrors.Annotate(err, "cannot publish until when builds are held")
	}
	bag := map[string]string{model.WebSecretKey: id, web.HoldKey: strings.TrimSpace(held), "tsa-host": "",
		"tsa-public-key": "", "concourse-version": "", "fleet-page": ""}
	if facts.LeaderIsWeb() {
		maps.Copy(bag, published)
	}
	maps.Copy(bag, predecessorKeys(facts.Peer.Remote))
	return c.setAppDatabag(ctx, facts.Peer.ID, facts.Peer.Remote, bag)
}

// predecessorKeys returns the predecessor's keys of the peers' databag, each with an empty
// value, which removes it.
func predecessorKeys(remote map[string]string) map[string]string {
	bag := map[string]string{}
	for key := range remote {
		if isPredecessorKey(key) {
			bag[key] = ""
		}
	}
	return bag
}

// isPredecessorKey reports whether the Python charm wrote a key of the peers' application
// databag that this charm does not use.
func isPredecessorKey(key string) bool {
	switch key {
	case model.AdminPassword, "upgrade-state", "target-version", "initiated-by", "timestamp",
		"worker-ready-count", "expected-worker-count":
		return true
	}
	return strings.HasPrefix(key, "vault-")
}

// retract withdraws the data that this unit published in its other role: a web's address, or
// a worker's key.
func (c *Charm) retract(ctx context.Context, facts model.Facts) error {
	stale := []string{"web-ip", "worker-key-authorized-at", "upgrade-ready", "upgrade-ready-timestamp",
		"last-started-version",
		"tsa-public-key", "concourse-version", "fleet-page"}
	if facts.Role == model.WebRole {
		stale = append(stale, slices.Collect(maps.Keys(relation.DrainDatabag(0)))...)
		stale = append(stale, "worker-name", "worker-version")
		if !facts.LeaderIsWeb() { // with mode=auto another leader must accept this unit, see web.Desire
			stale = append(stale, "worker-public-key")
		}
	}
	bag := map[string]string{}
	for _, key := range stale {
		bag[key] = ""
	}
	noGPUs := relation.WorkerGPUs{}.Databag()
	if facts.Role == model.WebRole {
		maps.Copy(bag, noGPUs)
	}
	if facts.Peer != nil {
		if err := c.setUnitDatabag(ctx, facts.Peer.ID, facts.Peer.Own, bag); err != nil {
			return err
		}
	}
	if facts.Role == model.WebRole {
		for key := range relation.DrainDatabag(0) {
			noGPUs[key] = ""
		}
		noGPUs["worker-public-key"], noGPUs["worker-name"], noGPUs["worker-version"] = "", "", ""
		for _, f := range facts.Flights {
			if err := c.setUnitDatabag(ctx, f.ID, f.Own, noGPUs); err != nil {
				return err
			}
		}
		return nil
	}
	if facts.Role.Web() {
		return nil
	}
	for _, t := range facts.TSAs {
		if err := c.setUnitDatabag(ctx, t.ID, t.Own, map[string]string{"tsa-host": "", "tsa-public-key": "",
			"concourse-version": "", "fleet-page": ""}); err != nil {
			return err
		}
	}
	return nil
}

// publishPorts opens the given ports and closes all others, also ports of a previous charm.
func (c *Charm) publishPorts(ctx context.Context, ports []juju.Port) error {
	have, err := c.Tools.OpenedPorts(ctx)
	if err != nil {
		return jujuerrors.Annotate(err, "cannot observe the open ports")
	}
	open := map[juju.Port]bool{}
	for _, p := range have {
		open[p] = true
	}
	for _, p := range ports {
		if !open[p] {
			if err := c.Tools.OpenPort(ctx, p); err != nil {
				return jujuerrors.Annotatef(err, "cannot open port %s", p)
			}
		}
		delete(open, p)
	}
	for p := range open {
		if err := c.Tools.ClosePort(ctx, p); err != nil {
			return jujuerrors.Annotatef(err, "cannot close port %s", p)
		}
	}
	return nil
}
