package release

import (
	"context"
	"errors"
	"os"
	"path"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// kept are the ids of the releases that this unit needs, before and after the
// plan is applied: the one to use, the one before it, and one that failed, for
// as long as it may be tried again.
func (r Release) kept(root host.Root, t target) map[string]bool {
	now, _ := currentRelease(root)
	keep := map[string]bool{t.id: true, now: true}
	if now == "" || now == t.id {
		if prev, ok := previousRelease(root); ok {
			keep[prev] = true
		}
	}
	if t.back {
		keep[r.avoid.ID] = true
	}
	return keep
}

// clean removes downloads, what a killed run left, and releases older than
// the previous one. Folders without our record are left alone, and with shared
// storage what other units need, and everything while one of them installs.
func (r Release) clean(h host.Host, t target) (plan.Plan, error) {
	keep := r.kept(h.Root, t)
	all, err := releases(h.Root)
	if err != nil {
		return nil, err
	}
	others := func(string) bool { return false }
	if r.Shared {
		if others, err = r.needed(h); err != nil {
			return nil, err
		}
	}
	var gone []string
	for _, o := range all {
		if !keep[o.ID] && !others(o.ID) {
			gone = append(gone, path.Join(Dir, o.ID))
		}
	}
	left, err := r.leftovers(h.Root, t)
	if err != nil {
		return nil, err
	}
	gone = append(gone, left...)
	if r.Shared && len(gone) > 0 {
		unlock, err := tryLock(h.Root)
		if errors.Is(err, errBusy) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		unlock()
	}
	var p plan.Plan
	for _, dir := range gone {
		why := "older than the previous release"
		if strings.HasPrefix(path.Base(dir), ".") {
			why = "not needed any more"
		}
		p = append(p, plan.Step{Op: "remove " + dir, Why: why, Do: func(context.Context) error {
			if r.Shared {
				return r.removeShared(h, dir)
			}
			return removeTree(h.Root, dir)
		}})
	}
	return p, nil
}

// leftovers are downloads and what killed runs left.
func (r Release) leftovers(root host.Root, t target) ([]string, error) {
	if r.Shared && !t.installed {
		return nil, nil // the install step sweeps
	}
	left, err := root.Glob(Dir + "/.unpack-*")
	if err != nil {
		return nil, err
	}
	var gone []string
	for _, dir := range left {
		if t.installed || path.Base(dir) != ".unpack-"+t.id { // the next unpacking uses that one
			gone = append(gone, dir)
		}
	}
	if root.Exists(downloadDir) || !t.installed && !t.resource {
		gone = append(gone, downloadDir)
	}
	if r.Shared {
		gone = append(gone, markers(root)...)
	}
	return gone, nil
}

// sweep removes what other installs left, by whoever holds the lock.
func (r Release) sweep(root host.Root) error {
	left, err := root.Glob(Dir + "/.unpack-*")
	if err != nil {
		return err
	}
	for _, p := range append(left, markers(root)...) {
		if err := os.RemoveAll(root.Path(p)); err != nil {
			return err
		}
	}
	return nil
}

// removeShared is removeTree beside other units. A unit names a release in its
// record and then looks whether it is there; this looks at the records, takes
// the release its name, and looks again. Whoever came in between either has
// its release back or finds it missing, and never links what is half removed.
func (r Release) removeShared(h host.Host, dir string) error {
	unlock, err := tryLock(h.Root)
	if errors.Is(err, errBusy) {
		return nil // that unit, or the next hook, does it
	}
	if err != nil {
		return err
	}
	defer unlock()
	id := path.Base(dir)
	if strings.HasPrefix(id, ".") {
		return os.RemoveAll(h.Path(dir))
	}
	if needed, err := r.needed(h); err != nil || needed(id) {
		return err
	}
	gone, err := takeName(h.Root, dir)
	if err != nil {
		return err
	}
	if needed, err := r.needed(h); err != nil || needed(id) {
		return errors.Join(err, os.Rename(h.Path(gone), h.Path(dir)))
	}
	return os.RemoveAll(h.Path(gone))
}

// removeTree takes the folder its name first: a release that is half removed
// must not look like one.
func removeTree(root host.Root, dir string) error {
	gone := dir
	if base := path.Base(dir); !strings.HasPrefix(base, ".") {
		var err error
		if gone, err = takeName(root, dir); err != nil {
			return err
		}
	}
	return os.RemoveAll(root.Path(gone))
}

// takeName renames the folder of a release to one that is swept.
func takeName(root host.Root, dir string) (string, error) {
	gone := path.Join(path.Dir(dir), ".unpack-old-"+path.Base(dir))
	if err := os.RemoveAll(root.Path(gone)); err != nil {
		return "", err
	}
	return gone, os.Rename(root.Path(dir), root.Path(gone))
}
