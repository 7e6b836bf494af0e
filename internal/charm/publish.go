package charm

import (
	"context"
	"errors"
	"io/fs"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/concourse"
)

// versionFile remembers which version Juju was told, in /run like all that a
// reboot may forget: there is no hook tool to ask.
const versionFile = "/run/concourse-charm/version"

// publish tells Juju what others want to know, differences only: the worker's
// public key to the related webs, where the exporter listens, and the version
// that runs. It is tried in every hook, so a key that was made late is published
// all the same (D20).
func (c *Charm) publish(ctx context.Context, facts Facts, exporter bool) error {
	// The plan has just seen to it that this is the private key's other half.
	key, err := c.Host.ReadText(concourse.WorkerKeyPublic)
	if err != nil {
		return jujuerrors.Annotate(err, "cannot publish the worker's key")
	}
	for _, f := range facts.Flights {
		if f.Own["worker-public-key"] == key {
			continue
		}
		if err := c.Tools.RelationSet(ctx, f.ID, false, map[string]string{"worker-public-key": key}); err != nil {
			return jujuerrors.Annotatef(err, "cannot publish the worker's key in %s", f.ID)
		}
	}
	if err := c.tellWatchers(ctx, facts, exporter); err != nil {
		return err
	}
	version, _, ok := concourse.InstalledRelease(c.Host.Root)
	if !ok {
		return nil
	}
	told, err := c.Host.ReadText(versionFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return jujuerrors.Annotate(err, "cannot read the version that Juju was told")
	}
	if told == version {
		return nil
	}
	if err := c.Tools.ApplicationVersionSet(ctx, version); err != nil {
		return jujuerrors.Annotate(err, "cannot tell Juju the version")
	}
	return jujuerrors.Annotate(c.Host.WriteFile(versionFile, []byte(version+"\n"), 0o644), "cannot keep the version that Juju was told")
}
