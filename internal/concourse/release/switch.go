package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// switchTo is the steps after the release is unpacked: the link, and what is not
// needed any more.
func (r Install) switchTo(ctx context.Context, h host.Host, t target) (plan.Plan, error) {
	var p plan.Plan
	now, used := currentRelease(h.Root)
	if now != t.id || (t.installed && r.wrongVersion(t)) {
		why := "no release is in use"
		switch {
		case t.back:
			why = r.avoid.Version + " failed here"
		case used:
			why = "in use is " + now
		}
		if used && now != t.id && r.Before != nil {
			s, err := r.Before.Diff(ctx, h)
			if err != nil {
				return nil, err
			}
			p = append(p, s...)
		}
		p = append(p, plan.Step{Op: "switch " + Link + " to " + t.id, Why: why, Do: func(context.Context) error {
			return r.link(h.Root, t)
		}})
	}
	if t.installed && t.resource {
		p = append(p, note(h.Root, t)...)
	}
	s, err := r.clean(h, t)
	return append(p, s...), err
}

// wrongVersion reports whether an attached release is not the wanted one.
func (r Release) wrongVersion(t target) bool {
	return r.Version != "" && !t.back && t.from.Version != r.Version
}

// link switches Link, remembering what it named, unless that failed.
func (r Release) link(root host.Root, t target) error {
	version, err := root.ReadText(path.Join(Dir, t.id, "VERSION"))
	if r.Shared && errors.Is(err, fs.ErrNotExist) {
		// Removed just before this unit's record named it.
		return &waitError{fmt.Sprintf("Another unit removed Concourse %s, installing it again...", t.id)}
	}
	if err != nil {
		return err
	}
	if t.from.Version = version; r.wrongVersion(t) {
		return &VersionError{Path: "the attached release", Want: r.Version, Got: version}
	}
	if err := root.MkdirAll(path.Dir(Link), 0o755); err != nil {
		return err
	}
	if now, ok := currentRelease(root); ok && now != t.id && now != r.avoid.ID {
		if err := replaceLink(root, previousLink, releaseFolder(root, now)); err != nil {
			return err
		}
	}
	return replaceLink(root, Link, releaseFolder(root, t.id))
}

// replaceLink makes or changes a symbolic link in one step.
func replaceLink(root host.Root, link, to string) error {
	tmp := path.Join(path.Dir(link), "."+path.Base(link)+".new")
	if err := root.Remove(tmp); err != nil {
		return err
	}
	if err := os.Symlink(to, root.Path(tmp)); err != nil {
		return err
	}
	if err := os.Rename(root.Path(tmp), root.Path(link)); err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return syncDir(root.Path(path.Dir(link)))
}

// note keeps an attached file's size and date where only they changed, so
// that its hash need not be computed in every hook.
func note(root host.Root, t target) plan.Plan {
	all, err := releases(root)
	if err != nil {
		return nil
	}
	have, ok := findRelease(all, func(o origin) bool { return o.ID == t.id })
	if !ok || have.File == t.from.File && have.Size == t.from.Size && have.Modified.Equal(t.from.Modified) {
		return nil
	}
	return plan.Plan{{Op: "note that the attached release is " + t.id, Why: "the file's date changed, its content did not", Do: func(context.Context) error {
		return writeOrigin(root, path.Join(Dir, t.id), t.from)
	}}}
}
