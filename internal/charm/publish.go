package charm

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// versionFile has the last published version, because no hook tool returns it. It is in
// /run, because a reboot may lose it.
const versionFile = wellknown.RunDir + "/version"

// Publish writes the relations, the open ports and the version: a worker's public key or a
// web's address, the exporters, and requests. It writes differences only. Every hook calls
// it, so that no event decides what is published (D20, D56).
func (c *Charm) Publish(ctx context.Context, d Decision) error {
	facts, want := d.Facts, d.Want
	if err := c.retract(ctx, facts); err != nil {
		return err
	}
	if facts.Role.Web() {
		if err := c.publishWeb(ctx, d); err != nil {
			return err
		}
	}
	if facts.Role != model.WebRole {
		if err := c.publishWorkerKey(ctx, facts, want); err != nil {
			return err
		}
	}
	if facts.Role.Web() || model.Resyncs(c.Event.Name) {
		if err := c.publishPorts(ctx, want.Web.Ports); err != nil {
			return err
		}
	}
	if err := c.publishRoute(ctx, facts, facts.Route, want.Web.Route); err != nil {
		return err
	}
	if err := c.publishRoute(ctx, facts, facts.FleetRoute, want.Web.FleetRoute); err != nil {
		return err
	}
	if err := c.publishMonitoring(ctx, d); err != nil {
		return err
	}
	if err := c.requestAuthorities(ctx, facts); err != nil {
		return err
	}
	version, _, ok := release.Installed(c.Host.Root)
	if !ok {
		return nil
	}
	last, err := c.Host.ReadText(versionFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return jujuerrors.Annotate(err, "cannot read the version set in Juju")
	}
	if last == version {
		return nil
	}
	if err := c.Tools.ApplicationVersionSet(ctx, version); err != nil {
		return jujuerrors.Annotate(err, "cannot set the version in Juju")
	}
	return jujuerrors.Annotate(c.Host.WriteFile(versionFile, []byte(version+"\n"), 0o644),
		"cannot store the version set in Juju")
}

// forgetDeparted forgets the workers that left and were disconnected. If the web could not
// reload its keys, it accepts them again, so a later hook must disconnect them once more. A
// later hook also removes a worker from the web's list if that failed.
func (c *Charm) forgetDeparted(f model.Facts, want Desired, notes []plan.Note) error {
	failed := func(op string) bool {
		return slices.ContainsFunc(notes, func(n plan.Note) bool { return n.Step.Op == op })
	}
	if len(want.Web.Cut) == 0 || failed(web.ReloadWebOp) {
		return nil
	}
	now := f
	web := *f.Web
	web.Departed = nil
	for _, l := range f.Web.Departed {
		switch {
		case !slices.Contains(want.Web.Cut, l.Key):
			web.Departed = append(web.Departed, l)
		case failed(concourse.ExpelOp(l.Name)):
			l.Address = "" // another worker may have it by then
			web.Departed = append(web.Departed, l)
		}
	}
	now.Web = &web
	return jujuerrors.Annotate(model.Save(c.Host.Root, f, now), "cannot store Juju's facts")
}

// requestAuthorities publishes the supported version of certificate_transfer.
func (c *Charm) requestAuthorities(ctx context.Context, facts model.Facts) error {
	if !facts.Authorities.Leader {
		return nil
	}
	for _, l := range facts.Authorities.Relations {
		if err := c.setAppDatabag(ctx, l.ID, l.OwnApp, relation.AuthoritiesRequest()); err != nil {
			return err
		}
	}
	return nil
}

// publishRoute requests a route from a reverse proxy. With mode=worker it withdraws the
// request, because the application has no web.
func (c *Charm) publishRoute(ctx context.Context, facts model.Facts, l *model.Route, want relation.Route) error {
	if l == nil {
		return nil
	}
	address := l.Address
	if facts.Mode() == config.ModeWorker {
		address = ""
	}
	app, err := want.Databag()
	if err != nil {
		return jujuerrors.Annotate(err, "cannot write the request to the proxy")
	}
	return c.request(ctx, &l.Relation, facts.Leader, app, relation.RouteUnit(address))
}
