package release

import (
	"context"
	"errors"
	"os"
	"path"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// required returns the ids of the releases that this unit needs before and after the plan
// is applied: the target, the previous release, and a failed one as long as it may be tried
// again.
func (r Release) required(root host.Root, t target) map[string]bool {
	now, _ := currentRelease(root)
	required := map[string]bool{t.id: true, now: true}
	if now == "" || now == t.id {
		if prev, ok := previousRelease(root); ok {
			required[prev] = true
		}
	}
	if t.back {
		required[r.avoid.ID] = true
	}
	return required
}

// clean removes downloads, remains of killed runs, and releases older than the previous
// one. Folders without a record of this charm stay. With shared storage, releases that
// other units need stay, and all releases stay while another unit installs one.
func (r Release) clean(h host.Host, t target) (plan.Plan, error) {
	required := r.required(h.Root, t)
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
	var remove []string
	for _, o := range all {
		if !required[o.ID] && !others(o.ID) {
			remove = append(remove, path.Join(Dir, o.ID))
		}
	}
	remains, err := r.leftovers(h.Root, t)
	if err != nil {
		return nil, err
	}
	remove = append(remove, remains...)
	if r.Shared && len(remove) > 0 {
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
	for _, dir := range remove {
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

// leftovers returns downloads and remains of killed runs.
func (r Release) leftovers(root host.Root, t target) ([]string, error) {
	if r.Shared && !t.installed {
		return nil, nil // the install step sweeps
	}
	remains, err := root.Glob(Dir + "/.unpack-*")
	if err != nil {
		return nil, err
	}
	var remove []string
	for _, dir := range remains {
		if t.installed || path.Base(dir) != ".unpack-"+t.id { // the next unpacking uses that folder
			remove = append(remove, dir)
		}
	}
	if root.Exists(downloadDir) || !t.installed && !t.resource {
		remove = append(remove, downloadDir)
	}
	if r.Shared {
		remove = append(remove, markers(root)...)
	}
	return remove, nil
}

// sweep removes remains of other installs. The caller holds the lock.
func (r Release) sweep(root host.Root) error {
	remains, err := root.Glob(Dir + "/.unpack-*")
	if err != nil {
		return err
	}
	for _, p := range append(remains, markers(root)...) {
		if err := os.RemoveAll(root.Path(p)); err != nil {
			return err
		}
	}
	return nil
}

// removeShared removes a release on storage that other units use. A unit names a release in
// its record and then checks that it exists. removeShared checks the records, renames the
// release and checks the records again. A unit that named the release in between either
// gets it back or finds it missing. It never links a half-removed one.
func (r Release) removeShared(h host.Host, dir string) error {
	unlock, err := tryLock(h.Root)
	if errors.Is(err, errBusy) {
		return nil // that unit, or the next hook, removes it
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
	renamed, err := takeName(h.Root, dir)
	if err != nil {
		return err
	}
	if needed, err := r.needed(h); err != nil || needed(id) {
		return errors.Join(err, os.Rename(h.Path(renamed), h.Path(dir)))
	}
	return os.RemoveAll(h.Path(renamed))
}

// removeTree renames the folder first, because a half-removed release must not look
// complete.
func removeTree(root host.Root, dir string) error {
	renamed := dir
	if base := path.Base(dir); !strings.HasPrefix(base, ".") {
		var err error
		if renamed, err = takeName(root, dir); err != nil {
			return err
		}
	}
	return os.RemoveAll(root.Path(renamed))
}

// takeName renames the folder of a release to a name that sweep removes.
func takeName(root host.Root, dir string) (string, error) {
	renamed := path.Join(path.Dir(dir), ".unpack-old-"+path.Base(dir))
	if err := os.RemoveAll(root.Path(renamed)); err != nil {
		return "", err
	}
	return renamed, os.Rename(root.Path(dir), root.Path(renamed))
}
