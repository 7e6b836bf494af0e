package predecessor

import (
	"errors"
	"io/fs"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
)

// The Python charm kept its web's files on shared storage, where every unit could
// read them (D10, D11); this charm keeps them on the web's own disk.

// WebFiles is where a web's files are to be read from the first time: its own
// folder, or, with shared storage and as long as nothing is there, the Python
// charm's.
func WebFiles(root host.Root, p concourse.WebPaths) concourse.WebPaths {
	if _, err := root.Lstat(p.Env()); p.Dir != release.HomeDir && errors.Is(err, fs.ErrNotExist) && root.Exists(concourse.WebFiles(false).KeyDir()) {
		return concourse.WebFiles(false)
	}
	return p
}

// SharedKeys takes the Python charm's keys and settings of the web off
// shared storage, which hold passwords. It is for the leader's web, once the
// application's secret has the keys and this web's own files are written: the
// other webs get them from the secret.
func SharedKeys(root host.Root) []plan.Resource {
	l := &leftovers{root: root}
	if !l.shared() {
		return nil
	}
	old := concourse.WebFiles(false)
	for _, p := range []string{old.Env(), old.KeyDir()} {
		if l.there(p) {
			l.gone = append(l.gone, resource.Absent{Path: p, Why: predecessors, Tree: true})
		}
	}
	return l.gone
}
