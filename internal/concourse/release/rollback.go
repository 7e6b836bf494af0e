package release

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/wellknown"
)

// failedFile names the release that did not start on this unit.
const failedFile = wellknown.StateDir + "/failed-release.json"

// Failed is a release that did not start here and is not tried again until
// something else is wanted or the operator says so.
type Failed struct {
	ID       string `json:"id"`       // of its folder in Dir
	Version  string `json:"version"`  // x.y.z
	Why      string `json:"why"`      // one line for a status
	Previous string `json:"previous"` // id of the release to go back to, "" when there is none
}

// readFailed is empty where no release failed. A note that can't be read is
// none: it must not keep the unit from running something.
func readFailed(root host.Root) (f Failed) {
	data, err := root.ReadFile(failedFile)
	if err != nil || json.Unmarshal(data, &f) != nil || !plainName(f.ID) {
		return Failed{}
	}
	return f
}

// MarkFailed notes that the release id did not start. It comes before going
// back: a run that is killed in between goes back in the next one, and the
// note, not a link that is being changed, says to what.
func MarkFailed(root host.Root, id, version, why string) error {
	f := Failed{ID: id, Version: version, Why: why}
	if prev, ok := previousRelease(root); ok && prev != id {
		f.Previous = prev
	} else if before := readFailed(root); before.ID == id {
		f.Previous = before.Previous
	}
	data, err := json.Marshal(f)
	if err == nil {
		err = root.MkdirAll(wellknown.StateDir, 0o700)
	}
	if err == nil {
		err = root.WriteFile(failedFile, append(data, '\n'), 0o600)
	}
	if err == nil {
		err = syncDir(root.Path(wellknown.StateDir))
	}
	if err != nil {
		return fmt.Errorf("cannot note that Concourse %s failed: %w", version, err)
	}
	return nil
}

// ForgetFailed lets the release be tried again.
func ForgetFailed(root host.Root) error {
	if err := root.Remove(failedFile); err != nil {
		return fmt.Errorf("cannot forget the release that failed: %w", err)
	}
	return nil
}

// Avoided is the version that is wanted and not used because it failed here: the one
// before it is used in its place. Where another one is wanted by now, Diff plans to
// forget the failure.
func (r Release) Avoided(root host.Root) (f Failed, is bool) {
	t, err := r.target(root)
	if err != nil || !t.back {
		return Failed{}, false
	}
	return r.avoid, true
}

// Previous is the release to go back to, complete and another one than that
// in use.
func Previous(root host.Root) (version, id string, ok bool) {
	id, ok = previousRelease(root)
	if _, now, used := Installed(root); !ok || used && now == id {
		return "", "", false
	}
	o, ok := complete(root, id)
	return o.Version, o.ID, ok
}

// instead is the release that takes the place of the wanted one where that
// failed here.
func (r Release) instead(root host.Root, t target) target {
	if r.avoid.ID != t.id {
		return t
	}
	// The one in use before the one noted: going back is done already.
	now, _ := currentRelease(root)
	for _, id := range []string{now, r.avoid.Previous} {
		if id == "" || id == t.id {
			continue
		}
		if o, ok := complete(root, id); ok {
			return target{id: id, installed: true, from: o, back: true}
		}
	}
	return t // nothing to go back to
}

// forget is the step that lets a failed release be tried again once another
// one is wanted.
func (r Release) forget(root host.Root, t target) plan.Plan {
	if r.avoid.ID == "" || t.back || t.id == r.avoid.ID {
		return nil
	}
	return plan.Plan{{Op: "forget that Concourse " + r.avoid.Version + " failed", Why: "another release is wanted", Do: func(context.Context) error {
		return ForgetFailed(root)
	}}}
}

// Upgrades reports whether the plan would replace a release that is in use,
// from one version to another. to is "" where only unpacking an attached
// release tells. Draining comes before that.
func Upgrades(root host.Root, r Release) (from, to string, is bool) {
	from, now, ok := Installed(root)
	t, err := r.target(root)
	if !ok || err != nil || t.id == now {
		return from, from, false
	}
	to = t.from.Version
	if to == "" {
		to = r.Version
	}
	return from, to, true
}

// DowngradeError is a release that is older than the one that made the
// database what it is.
type DowngradeError struct {
	From, To string
	Schema   int // newest version of a database that To knows
}

func (e *DowngradeError) Error() string {
	return fmt.Sprintf("cannot go from Concourse %s back to %s: the database was migrated by %s", e.From, e.To, e.From)
}

// Remedy says what the operator can do.
func (e *DowngradeError) Remedy() string {
	return fmt.Sprintf("%s; run juju config <application> version=%s, or first take the database back: juju run <unit> run-migrations target-version=%d", e.Error(), e.From, e.Schema)
}

// complete is the record of the release id, if it is there whole.
func complete(root host.Root, id string) (origin, bool) {
	data, err := root.ReadFile(path.Join(Dir, id, originName))
	o := origin{ID: id}
	if err != nil || json.Unmarshal(data, &o) != nil || CheckVersion(o.Version) != nil {
		return origin{}, false
	}
	return o, true
}
