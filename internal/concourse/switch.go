package concourse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
)

// switchTo is the steps after the release is unpacked: the link, the names
// that the predecessor used, and what is not needed any more.
func (r *Release) switchTo(ctx context.Context, h host.Host, t target) (plan.Plan, error) {
	var p plan.Plan
	now, used := currentRelease(h.Root)
	if _, linked := linkedRelease(h.Root, ReleaseLink); !linked || now != t.id || (t.installed && r.wrongVersion(t)) {
		why := "no release is in use"
		switch {
		case t.back:
			why = r.avoid.Version + " failed here"
		case used && now == t.id && !linked:
			why = "it is in use by " + oldReleaseLink
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
		p = append(p, plan.Step{Op: "switch " + ReleaseLink + " to " + t.id, Why: why, Do: func(context.Context) error {
			return r.link(h.Root, t)
		}})
	}
	if t.installed && t.resource {
		p = append(p, note(h.Root, t)...)
	}
	if !r.Shared { // there, units of the Python charm may still run what is in these
		p = append(p, moveOldLinks(h.Root)...)
		for _, name := range []string{"bin", "resource-types"} {
			s, err := compat(h.Root, name)
			if err != nil {
				return nil, err
			}
			p = append(p, s...)
		}
	}
	s, err := r.clean(h, t)
	return append(p, s...), err
}

// wrongVersion reports whether an attached release is not the wanted one.
func (r *Release) wrongVersion(t target) bool {
	return r.Version != "" && !t.back && t.from.Version != r.Version
}

// link switches ReleaseLink, remembering what it named, unless that failed.
func (r *Release) link(root host.Root, t target) error {
	version, err := root.ReadText(path.Join(ReleasesDir, t.id, "VERSION"))
	if r.Shared && errors.Is(err, fs.ErrNotExist) {
		// Removed just before this unit's record named it.
		return &WaitError{fmt.Sprintf("Another unit removed Concourse %s, installing it again...", t.id)}
	}
	if err != nil {
		return err
	}
	if t.from.Version = version; r.wrongVersion(t) {
		return &VersionError{Path: "the attached release", Want: r.Version, Got: version}
	}
	if err := root.MkdirAll(path.Dir(ReleaseLink), 0o755); err != nil {
		return err
	}
	failed := r.avoid != nil
	if now, ok := currentRelease(root); ok && now != t.id && !(failed && now == r.avoid.ID) {
		if err := replaceLink(root, previousLink, releaseFolder(root, now)); err != nil {
			return err
		}
	}
	return replaceLink(root, ReleaseLink, releaseFolder(root, t.id))
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
		return writeOrigin(root, path.Join(ReleasesDir, t.id), t.from)
	}}}
}

// compat keeps HomeDir/bin and HomeDir/resource-types working for people and
// scripts. The predecessor's folders are moved aside as they are.
func compat(root host.Root, name string) (plan.Plan, error) {
	link, to := path.Join(HomeDir, name), ReleaseLink+"/"+name
	st, err := root.Lstat(link)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot compare %s: %w", link, err)
	}
	var p plan.Plan
	switch {
	case err != nil:
	case st.IsDir():
		p = append(p, plan.Step{Op: "move " + link + " aside", Why: "a release of the previous charm, kept in " + ReleasesDir, Do: func(context.Context) error {
			return moveAside(root, name)
		}})
	default:
		return nil, nil // our link, or something that the operator put there
	}
	return append(p, plan.Step{Op: "link " + link + " to " + to, Why: "missing", Do: func(context.Context) error {
		return replaceLink(root, link, linkText(root, to))
	}}), nil
}

func moveAside(root host.Root, name string) error {
	for n := 1; ; n++ {
		dir := fmt.Sprintf("%s/predecessor-%d", ReleasesDir, n)
		if _, err := root.Lstat(path.Join(dir, name)); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return os.Rename(root.Path(path.Join(HomeDir, name)), root.Path(path.Join(dir, name)))
	}
}
