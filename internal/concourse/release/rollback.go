package release

import (
	"cmp"
	"context"
	"fmt"
	"path"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// failedFile is the record of the release that did not start on this unit.
const failedFile = wellknown.StateDir + "/failed-release.json"

// Failed describes a release that did not start here. It is not tried again until another
// release is wanted or the operator requests it.
type Failed struct {
	ID       string `json:"id"`       // of its folder in Dir
	Version  string `json:"version"`  // x.y.z
	Why      string `json:"why"`      // one line for a status
	Previous string `json:"previous"` // id of the release to roll back to, or ""
}

var failedState = statefile.File[Failed]{Path: failedFile, Mode: 0o600, Disposable: true}

// readFailed returns the failed release, or the zero value. An unreadable record is
// ignored, because it must not prevent the unit from running a release.
func readFailed(root host.Root) Failed {
	f, err := failedState.Read(root)
	if err != nil || !plainName(f.ID) {
		return Failed{}
	}
	return f
}

// MarkFailed records that the release id did not start. The record comes before the
// rollback. If a run is killed in between, the next one rolls back to the release in the
// record, independent of a half-changed link.
func MarkFailed(root host.Root, id, version, why string) error {
	f := Failed{ID: id, Version: version, Why: why}
	if prev, ok := previousRelease(root); ok && prev != id {
		f.Previous = prev
	} else if before := readFailed(root); before.ID == id {
		f.Previous = before.Previous
	}
	err := failedState.Write(root, f)
	if err == nil {
		err = resource.SyncDir(root.Path(wellknown.StateDir))
	}
	if err != nil {
		return fmt.Errorf("cannot record that Concourse %s failed: %w", version, err)
	}
	return nil
}

// ForgetFailed allows the release to be tried again.
func ForgetFailed(root host.Root) error {
	if err := root.Remove(failedFile); err != nil {
		return fmt.Errorf("cannot forget the release that failed: %w", err)
	}
	return nil
}

// Avoided returns the wanted version if it failed here, so that the previous one is used.
// Once another version is wanted, Diff plans to remove the record.
func (r Release) Avoided(root host.Root) (f Failed, is bool) {
	t, err := r.target(root)
	if err != nil || !t.back {
		return Failed{}, false
	}
	return r.avoid, true
}

// Previous returns the release to roll back to. It is complete and not in use.
func Previous(root host.Root) (version, id string, ok bool) {
	id, ok = previousRelease(root)
	if _, now, used := Installed(root); !ok || used && now == id {
		return "", "", false
	}
	o, ok := complete(root, id)
	return o.Version, o.ID, ok
}

// instead returns the release that replaces the wanted one if that failed here.
func (r Release) instead(root host.Root, t target) target {
	if r.avoid.ID != t.id {
		return t
	}
	// The current release is preferred over the recorded one, because the rollback may be
	// complete.
	now, _ := currentRelease(root)
	for _, id := range []string{now, r.avoid.Previous} {
		if id == "" || id == t.id {
			continue
		}
		if o, ok := complete(root, id); ok {
			return target{id: id, installed: true, from: o, back: true}
		}
	}
	return t // no release to roll back to
}

// allowRetry returns the step that removes the record of a failed release once another one is
// wanted.
func (r Release) allowRetry(root host.Root, t target) plan.Plan {
	if r.avoid.ID == "" || t.back || t.id == r.avoid.ID {
		return nil
	}
	return plan.Plan{{Op: "forget that Concourse " + r.avoid.Version + " failed", Why: "another release is wanted",
		Do: func(context.Context) error {
			return ForgetFailed(root)
		}}}
}

// Upgrades reports whether the plan replaces a release in use, and the two versions. to is
// "" if the version of an attached release is unknown before unpacking. Draining comes
// before the upgrade.
func Upgrades(root host.Root, r Release) (from, to string, is bool) {
	from, now, ok := Installed(root)
	t, err := r.target(root)
	if !ok || err != nil || t.id == now {
		return from, from, false
	}
	to = t.from.Version
	to = cmp.Or(to, r.Version)
	return from, to, true
}

// DowngradeError reports a release that is older than the one that migrated the database.
type DowngradeError struct {
	From, To string
	Schema   int // newest version of a database that To supports
}

func (e *DowngradeError) Error() string {
	return fmt.Sprintf("cannot go from Concourse %s back to %s: the database was migrated by %s", e.From, e.To, e.From)
}

// Remedy returns the cause with a way to fix it.
func (e *DowngradeError) Remedy(c wellknown.Commands) status.Cause {
	return status.Block("cannot go back to Concourse %s: %s migrated the database", e.To, e.From).
		Run(c.SetOption("version=" + e.From)).
		Fix("or first take the database back: " +
			c.RunAction(fmt.Sprintf("run-migrations target-version=%d", e.Schema)))
}

// complete returns the record of the release id if the release is complete.
func complete(root host.Root, id string) (origin, bool) {
	o, err := originFile(path.Join(Dir, id)).Read(root)
	o.ID = id
	if err != nil || CheckVersion(o.Version) != nil {
		return origin{}, false
	}
	return o, true
}
