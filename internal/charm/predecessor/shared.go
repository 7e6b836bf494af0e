package predecessor

import (
	"errors"
	"io/fs"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// The Python charm stored its web's files on shared storage, on which every unit can read
// them (D10, D11). This charm stores them on the web's own disk.

// WebFiles returns the paths of a web's files for the first read: its own folder, or the
// Python charm's if the releases are on shared storage and the own folder is empty.
func WebFiles(root host.Root, p concourse.WebPaths) concourse.WebPaths {
	if _, err := root.Lstat(p.Env()); p.Dir != release.HomeDir && errors.Is(err, fs.ErrNotExist) &&
		root.Exists(concourse.HomeWebFiles().KeyDir()) {
		return concourse.HomeWebFiles()
	}
	return p
}

// SharedKeys returns the steps that remove the Python charm's keys and settings of the web
// from shared storage. They contain passwords. The leader's web runs them after the
// application's secret has the keys and its own files are written. The other webs read the
// secret.
func SharedKeys(root host.Root) []plan.Resource {
	l := &leftovers{root: root}
	if !l.shared() {
		return nil
	}
	old := concourse.HomeWebFiles()
	for _, p := range []string{old.Env(), old.KeyDir()} {
		if l.exists(p) {
			l.steps = append(l.steps, resource.Absent{Path: p, Why: predecessors, Tree: true})
		}
	}
	return l.steps
}
