package actions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

func rotatable() string { return strings.Join(slices.Sorted(maps.Keys(web.Rotated)), ", ") }

// rotateKeys creates new keys: the application's keys on the web's leader, the worker's own
// key on a worker.
func (c *Actions) rotateKeys(ctx context.Context, u charm.Decision, params map[string]any) (map[string]any, error) {
	if err := checkUsable(u, "rotate keys", ""); err != nil {
		return nil, err
	}
	which, _ := params["keys"].(string)
	keys, ok := web.Rotated[which]
	switch {
	case which == "":
		return nil, fmt.Errorf("cannot rotate keys: keys is not set; use keys=all or one of %s", rotatable())
	case !ok:
		return nil, fmt.Errorf("cannot rotate %q: want one of %s", which, rotatable())
	case u.Facts.Role == model.WorkerRole && which != "all":
		return nil, fmt.Errorf(
			"cannot rotate %s: this unit is a worker with one key; use keys=all, or run the action on a web",
			which)
	case u.Facts.Role == model.WorkerRole:
		return c.rotateWorkerKey(ctx, u)
	case !u.Facts.Leader:
		return nil, fmt.Errorf(
			"cannot rotate keys on this unit: the leader owns them; run it on the leader (juju run %s/leader "+
				"rotate-keys keys=%s)",
			c.Event.App(), which)
	case u.Facts.Web.SecretID == "":
		return nil, errors.New("cannot rotate keys: there are none yet; see " + c.Commands().ShowStatus())
	}
	fresh, err := c.FreshSecrets()
	if err != nil {
		return nil, err
	}
	was := u.Facts.Web
	web := *was
	before := maps.Clone(web.Secret)
	for _, key := range keys {
		before[key] = fresh.Content()[key]
	}
	web.Secret = before
	u.Facts.Web = &web
	if u, err = c.Redesire(ctx, u); err != nil {
		return nil, err
	}
	u.Facts.Web = was // Juju has the old content: publish compares with it
	if err := c.apply(ctx, u); err != nil {
		return nil, err
	}
	results := map[string]any{"rotated": strings.Join(keys, " "), "message": rotationNote(keys)}
	if u.Want.Web.Up {
		if cause := c.CheckWeb(ctx, u.Want.Web, charm.Restarted); cause != nil {
			return results, fmt.Errorf("cannot reach the web with its new keys: %s", cause.Text)
		}
	}
	return results, nil
}

func rotationNote(keys []string) string {
	var notes []string
	if slices.Contains(keys, model.SessionKey) {
		notes = append(notes,
			"logins under way begin again; who is logged in stays so until the token ends, a day later")
	}
	if slices.Contains(keys, model.TSAHostKey) {
		notes = append(notes, "workers get the web's new key and reconnect")
	}
	if slices.Contains(keys, model.AdminPassword) {
		notes = append(notes, "get-admin-password shows the new password")
	}
	return strings.Join(notes, "; ")
}

func (c *Actions) rotateWorkerKey(ctx context.Context, u charm.Decision) (map[string]any, error) {
	for _, path := range []string{concourse.WorkerKey, concourse.WorkerKeyPublic} {
		if err := c.Host.Remove(path); err != nil {
			return nil, err
		}
	}
	if err := c.apply(ctx, u); err != nil {
		return nil, err
	}
	if u.Want.Worker.Up { // it adopts its tasks, and retries until the web has the new key
		if _, err := c.Host.Run(ctx, resource.Systemctl("restart", concourse.Unit)); err != nil {
			return nil, err
		}
	}
	return map[string]any{"rotated": "worker-key", "message": "the web gets the new key when this action ends"}, nil
}
