package concourse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
)

// previousLink names the release that ran before, which is kept: containers
// that it started still use its programs, and going back needs no download.
const previousLink = ReleasesDir + "/.previous"

// switchTo is the steps after the release is unpacked: the link, the names
// that the predecessor used, and what is not needed any more.
func (r *Release) switchTo(h host.Host, t target) (plan.Plan, error) {
	var p plan.Plan
	now, linked := linkedRelease(h.Root, ReleaseLink, "releases/")
	if !linked || now != t.id || (t.installed && r.wrongVersion(t.from.Version)) {
		why := "no release is in use"
		if linked {
			why = "in use is " + now
		}
		p = append(p, plan.Step{Op: "switch " + ReleaseLink + " to " + t.id, Why: why, Do: func(context.Context) error {
			return r.link(h.Root, t.id)
		}})
	}
	if t.installed && t.resource {
		p = append(p, note(h.Root, t)...)
	}
	for _, name := range []string{"bin", "resource-types"} {
		s, err := compat(h.Root, name)
		if err != nil {
			return nil, err
		}
		p = append(p, s...)
	}
	s, err := r.clean(h.Root, t, now)
	return append(p, s...), err
}

func (r *Release) wrongVersion(v string) bool { return r.Version != "" && v != r.Version }

// link switches ReleaseLink, remembering what it named.
func (r *Release) link(root host.Root, id string) error {
	version, err := root.ReadText(path.Join(ReleasesDir, id, "VERSION"))
	if err != nil {
		return err
	}
	if r.wrongVersion(version) {
		return &VersionError{Path: "the attached release", Want: r.Version, Got: version}
	}
	if now, ok := linkedRelease(root, ReleaseLink, "releases/"); ok && now != id {
		if err := replaceLink(root, previousLink, now); err != nil {
			return err
		}
	}
	return replaceLink(root, ReleaseLink, "releases/"+id)
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
	link, to := path.Join(HomeDir, name), "release/"+name
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
		return replaceLink(root, link, to)
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

// clean removes downloads, what a killed run left, and releases older than
// the previous one. Folders without our record are left alone.
func (r *Release) clean(root host.Root, t target, now string) (plan.Plan, error) {
	keep := map[string]bool{t.id: true, now: true}
	if now == "" || now == t.id {
		if prev, ok := linkedRelease(root, previousLink, ""); ok {
			keep[prev] = true
		}
	}
	all, err := releases(root)
	if err != nil {
		return nil, err
	}
	var gone []string
	for _, o := range all {
		if !keep[o.ID] {
			gone = append(gone, path.Join(ReleasesDir, o.ID))
		}
	}
	left, err := root.Glob(ReleasesDir + "/.unpack-*")
	if err != nil {
		return nil, err
	}
	for _, dir := range left {
		if t.installed || path.Base(dir) != ".unpack-"+t.id { // the next unpacking uses that one
			gone = append(gone, dir)
		}
	}
	if root.Exists(downloadDir) || (!t.installed && !t.resource) {
		gone = append(gone, downloadDir)
	}
	var p plan.Plan
	for _, dir := range gone {
		why := "older than the previous release"
		if strings.HasPrefix(path.Base(dir), ".") {
			why = "not needed any more"
		}
		p = append(p, plan.Step{Op: "remove " + dir, Why: why, Do: func(context.Context) error {
			return removeTree(root, dir)
		}})
	}
	return p, nil
}

// removeTree takes the folder its name first: a release that is half removed
// must not look like one.
func removeTree(root host.Root, dir string) error {
	gone := dir
	if base := path.Base(dir); !strings.HasPrefix(base, ".") {
		gone = path.Join(path.Dir(dir), ".unpack-old-"+base)
		if err := os.RemoveAll(root.Path(gone)); err != nil {
			return err
		}
		if err := os.Rename(root.Path(dir), root.Path(gone)); err != nil {
			return err
		}
	}
	return os.RemoveAll(root.Path(gone))
}
