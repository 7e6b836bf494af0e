package charm

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/predecessor"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
)

// secretLabel is the label of the application's secret, for people.
const secretLabel = "concourse-web"

// bag publishes differences in one bag.
func (c *Charm) bag(ctx context.Context, id string, app bool, own, want map[string]string) error {
	return jujuerrors.Annotatef(c.Tools.RelationSet(ctx, id, app, relation.Changes(own, want, slices.Collect(maps.Keys(want)))), "cannot publish in %s", id)
}

// publishWorkerKey tells webs which key this worker has, and which GPUs, in
// flight and, with mode=auto, among the peers. It is tried in every hook, so a key that was made
// late is published all the same (D20).
func (c *Charm) publishWorkerKey(ctx context.Context, facts model.Facts, want Desired) error {
	// The plan has just seen to it that this is the private key's other half.
	key, err := c.Host.ReadText(concourse.WorkerKeyPublic)
	if err != nil {
		return jujuerrors.Annotate(err, "cannot publish the worker's key")
	}
	id, _ := concourse.ReadWorkerID(c.Host.Root, concourse.WorkFolder(want.Release.Shared))
	kept, _ := predecessor.WorkerName(c.Host.Root, concourse.WorkFolder(want.Release.Shared))
	now := c.Host.Now()
	version, _, _ := release.Installed(c.Host.Root)
	bagFor := func(own map[string]string) map[string]string {
		bag := relation.WorkerBag(key, role.WorkerName(kept, facts.Unit, id), version)
		maps.Copy(bag, relation.DrainBag(want.Worker.Drain))
		maps.Copy(bag, want.Worker.GPUs.After(own, now).Bag())
		return bag
	}
	for _, f := range facts.Flights {
		if err := c.bag(ctx, f.ID, false, f.Own, bagFor(f.Own)); err != nil {
			return err
		}
	}
	switch {
	case facts.Peer == nil:
		return nil
	case facts.Mode() == "auto":
		return c.bag(ctx, facts.Peer.ID, false, facts.Peer.Own, bagFor(facts.Peer.Own))
	case facts.Leader: // no web of this application does it (D33)
		return c.bag(ctx, facts.Peer.ID, true, facts.Peer.Remote, scrubbed(facts.Peer.Remote))
	}
	return nil
}

// publishWeb tells the model what a web has to tell: its address and public
// key to workers, its keys to the other webs in a secret, and its requests to
// PostgreSQL, Vault, LDAP and the authority for certificates.
func (c *Charm) publishWeb(ctx context.Context, facts model.Facts, want Desired) error {
	w := facts.Web
	published := map[string]string{"tsa-host": "", "tsa-public-key": "", "concourse-version": ""}
	if want.Web.Up {
		public, err := c.Host.ReadText(concourse.WebFiles(want.Release.Shared).TSAHostKeyPublic())
		if err != nil {
			return jujuerrors.Annotate(err, "cannot publish the web's key")
		}
		version, _, _ := release.Installed(c.Host.Root)
		maps.Copy(published, relation.TSABag(net.JoinHostPort(w.Address, strconv.Itoa(wellknown.TSAPort)), public, version))
	}
	for _, t := range facts.TSAs {
		if err := c.bag(ctx, t.ID, false, t.Own, published); err != nil {
			return err
		}
	}
	if err := c.publishSecret(ctx, facts, want, published); err != nil {
		return err
	}
	if facts.Peer != nil && facts.Mode() == "auto" {
		key, err := c.Host.ReadText(concourse.WorkerKeyPublic)
		if err == nil {
			err = c.bag(ctx, facts.Peer.ID, false, facts.Peer.Own, map[string]string{"worker-public-key": key})
		}
		if err != nil {
			return jujuerrors.Annotate(err, "cannot publish the key of the worker that this unit can become")
		}
	}
	if l := w.Database; l != nil {
		if err := c.request(ctx, l, facts.Leader, relation.DatabaseRequest(), relation.DatabaseUnitRequest()); err != nil {
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
		if err := c.bag(ctx, l.ID, true, l.OwnApp, relation.LDAPRequest(c.Event.App(), facts.Model)); err != nil {
			return err
		}
	}
	if l := w.Certificates; l != nil && want.Web.Request != "" {
		return c.request(ctx, l, facts.Leader, nil, relation.CertificateBag(want.Web.Request))
	}
	return nil
}

func (c *Charm) request(ctx context.Context, l *model.Relation, leader bool, app, unit map[string]string) error {
	if leader {
		if err := c.bag(ctx, l.ID, true, l.OwnApp, app); err != nil {
			return err
		}
	}
	return c.bag(ctx, l.ID, false, l.Own, unit)
}

// publishSecret keeps the application's secret, and tells the peers which one
// it is and, with mode=auto, where the web is. What the predecessor kept there
// in clear goes (D33).
func (c *Charm) publishSecret(ctx context.Context, facts model.Facts, want Desired, published map[string]string) error {
	// Without the peers' bag nobody would find it again: a hook follows when
	// there is one.
	if !facts.Leader || want.Web.Secret == nil || facts.Peer == nil {
		return nil
	}
	id := facts.Web.SecretID
	s := juju.Secret{Label: secretLabel, Description: "Keys and passwords of the Concourse web", Content: want.Web.Secret}
	switch {
	case id == "":
		s.Owner = juju.OwnerApplication
		var err error
		if id, err = c.Tools.SecretAdd(ctx, s); err != nil {
			return jujuerrors.Annotate(err, "cannot keep the web's keys in a secret")
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
	bag := map[string]string{model.WebSecretKey: id, web.HoldKey: strings.TrimSpace(held), "tsa-host": "", "tsa-public-key": "", "concourse-version": ""}
	if facts.Mode() == "auto" {
		maps.Copy(bag, published)
	}
	maps.Copy(bag, scrubbed(facts.Peer.Remote))
	return c.bag(ctx, facts.Peer.ID, true, facts.Peer.Remote, bag)
}

// scrubbed is the predecessor's keys of the peers' bag, to be removed.
func scrubbed(remote map[string]string) map[string]string {
	bag := map[string]string{}
	for key := range remote {
		if predecessorKey(key) {
			bag[key] = ""
		}
	}
	return bag
}

// predecessorKey is a key of the peers' application bag that the Python charm
// wrote and that has no use any more.
func predecessorKey(key string) bool {
	switch key {
	case model.AdminPassword, "upgrade-state", "target-version", "initiated-by", "timestamp", "worker-ready-count", "expected-worker-count":
		return true
	}
	return strings.HasPrefix(key, "vault-")
}

// retract takes back what this unit told in another role: a worker no web's
// address, a web no worker's key.
func (c *Charm) retract(ctx context.Context, facts model.Facts) error {
	gone := []string{"web-ip", "worker-key-authorized-at", "upgrade-ready", "upgrade-ready-timestamp", "last-started-version",
		"tsa-public-key", "concourse-version"}
	if facts.Role == model.WebRole {
		gone = append(gone, slices.Collect(maps.Keys(relation.DrainBag(0)))...)
		gone = append(gone, "worker-name", "worker-version")
		if facts.Mode() != "auto" { // else another leader is to let this unit in, see web.Desire
			gone = append(gone, "worker-public-key")
		}
	}
	bag := map[string]string{}
	for _, key := range gone {
		bag[key] = ""
	}
	noGPUs := relation.WorkerGPUs{}.Bag()
	if facts.Role == model.WebRole {
		maps.Copy(bag, noGPUs)
	}
	if facts.Peer != nil {
		if err := c.bag(ctx, facts.Peer.ID, false, facts.Peer.Own, bag); err != nil {
			return err
		}
	}
	if facts.Role == model.WebRole {
		for key := range relation.DrainBag(0) {
			noGPUs[key] = ""
		}
		noGPUs["worker-public-key"], noGPUs["worker-name"], noGPUs["worker-version"] = "", "", ""
		for _, f := range facts.Flights {
			if err := c.bag(ctx, f.ID, false, f.Own, noGPUs); err != nil {
				return err
			}
		}
		return nil
	}
	for _, t := range facts.TSAs {
		if err := c.bag(ctx, t.ID, false, t.Own, map[string]string{"tsa-host": "", "tsa-public-key": "", "concourse-version": ""}); err != nil {
			return err
		}
	}
	return nil
}

// publishPorts opens the web's port and closes what a charm opened before.
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
