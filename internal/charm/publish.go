package charm

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/concourse/release"
)

// versionFile remembers which version Juju was told, in /run like all that a
// reboot may forget: there is no hook tool to ask.
const versionFile = "/run/concourse-charm/version"

// Publish tells Juju what others want to know, differences only: a worker's
// public key or a web's address, where the exporters listen, and the version
// that runs. It is tried in every hook, so that no event decides what is told
// (D20, D56).
func (c *Charm) Publish(ctx context.Context, facts model.Facts, want Desired) error {
	if err := c.retract(ctx, facts); err != nil {
		return err
	}
	var err error
	if facts.Role == model.WebRole {
		err = c.publishWeb(ctx, facts, want)
	} else {
		err = c.publishWorkerKey(ctx, facts, want)
	}
	if err != nil {
		return err
	}
	if facts.Role == model.WebRole || model.Resyncs(c.Event.Name) {
		if err := c.publishPorts(ctx, want.Web.Ports); err != nil {
			return err
		}
	}
	if err := c.publishRoute(ctx, facts, want.Web.Route); err != nil {
		return err
	}
	if err := c.tellWatchers(ctx, facts, listening{GPU: want.Worker.Exporter, Web: want.Web.Jobs}); err != nil {
		return err
	}
	if err := c.askAuthorities(ctx, facts); err != nil {
		return err
	}
	version, _, ok := release.Installed(c.Host.Root)
	if !ok {
		return nil
	}
	last, err := c.Host.ReadText(versionFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return jujuerrors.Annotate(err, "cannot read the version that Juju was told")
	}
	if last == version {
		return nil
	}
	if err := c.Tools.ApplicationVersionSet(ctx, version); err != nil {
		return jujuerrors.Annotate(err, "cannot tell Juju the version")
	}
	return jujuerrors.Annotate(c.Host.WriteFile(versionFile, []byte(version+"\n"), 0o644), "cannot keep the version that Juju was told")
}

// forgetGone forgets the workers that left and have been cut off. A web that could not be
// reloaded lets them in again, so they are cut off once more later. Without a web to run,
// the file of keys still has their keys, and none is cut off.
func (c *Charm) forgetGone(f model.Facts, want Desired, notes []plan.Note) error {
	stale := slices.ContainsFunc(notes, func(n plan.Note) bool { return n.Step.Op == web.ReloadWebOp })
	if len(want.Web.Cut) == 0 || stale {
		return nil
	}
	now := f
	web := *f.Web
	web.Gone = slices.DeleteFunc(slices.Clone(web.Gone), func(l model.Leaver) bool { return slices.Contains(want.Web.Cut, l.Key) })
	now.Web = &web
	return jujuerrors.Annotate(model.Save(c.Host.Root, f, now), "cannot keep what Juju says")
}
