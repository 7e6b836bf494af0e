// Package predecessor takes over a machine from the Python charm, which `juju refresh`
// replaces with this one. It recognizes the files of that charm, keeps its keys, names and
// the encryption of the database, and removes the rest. It never touches files of the
// operator. The takeover ends with the first major version after this one: then this folder
// is removed.
package predecessor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// predecessors is the reason of every step in this package.
const predecessors = "left by the Python charm"

// Leftovers returns the steps that remove the files of the Python charm:
//
//   - its exporter of builds
//   - its wrappers of runc, with their links and copies
//   - its changes of the configurations of containerd and of NVIDIA's runtime
//   - keys and markers that are no longer used
//
// The steps come after the worker or the web is set up, because the services of the Python
// charm should work until then. They come before an exporter, because the Python charm's
// exporter has its port.
//
// A file is recognized by its path and content. A file of the operator at such a path stays,
// see Remarks. Files that others may use stay, too: packages and their sources, fly, the CDI
// file, modes of device nodes, certificates, and everything on shared storage. Environment
// files and unit files are not removed, because other resources replace them.
//
// Each step depends only on the remaining files, so the next run finishes a killed one. On a
// machine without that charm there are no steps.
func Leftovers(root host.Root) []plan.Resource { return inspect(root).steps }

// Remarks names files with another owner at paths of the Python charm, if Leftovers has
// steps.
func Remarks(root host.Root) []string {
	l := inspect(root)
	if len(l.steps) == 0 {
		return nil
	}
	return l.kept
}

// leftovers collects steps in the order in which they are applied.
type leftovers struct {
	root  host.Root
	steps []plan.Resource
	kept  []string
}

func inspect(root host.Root) *leftovers {
	l := &leftovers{root: root}
	l.exporter()
	l.unusedKeys()
	l.markers()
	l.runtime()
	return l
}

// remove removes paths that only the Python charm has used.
func (l *leftovers) remove(paths ...string) {
	for _, p := range paths {
		if l.exists(p) {
			l.steps = append(l.steps, resource.Absent{Path: p, Why: predecessors})
		}
	}
}

// addStep adds a step.
func (l *leftovers) addStep(op string, do func(ctx context.Context, h host.Host) error) {
	l.steps = append(l.steps, leftover{plan.Step{Op: op, Why: predecessors}, do})
}

// addOptionalStep adds a step that may fail.
func (l *leftovers) addOptionalStep(op string, do func(ctx context.Context, h host.Host) error) {
	l.steps = append(l.steps, leftover{plan.Step{Op: op, Why: predecessors, Tolerate: true}, do})
}

// noteKept adds a remark about a file with another owner.
func (l *leftovers) noteKept(p, why string) {
	l.kept = append(l.kept, fmt.Sprintf("kept %s: %s", p, why))
}

// exists reports whether there is a file or a link at p.
func (l *leftovers) exists(p string) bool {
	_, err := l.root.Lstat(p)
	return err == nil
}

// has reports whether a regular file contains all words. known is false if the file is
// missing.
func (l *leftovers) has(p string, words ...string) (has, known bool) {
	data, err := l.text(p)
	if err != nil {
		return false, false
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !bytes.Contains(data, []byte(w)) }), true
}

// maxText exceeds the size of all texts in this package. A longer file is a program.
const maxText = 1 << 20

// text returns the content of a regular file.
func (l *leftovers) text(p string) ([]byte, error) {
	st, err := l.root.Lstat(p)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxText {
		return nil, errors.New("no text file")
	}
	return l.root.ReadFile(p)
}

// leftover describes one step that is due.
type leftover struct {
	step plan.Step
	do   func(ctx context.Context, h host.Host) error
}

// Diff implements plan.Resource.
func (l leftover) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	s := l.step
	s.Do = func(ctx context.Context) error { return l.do(ctx, h) }
	return plan.Plan{s}, nil
}

// Files of the Python charm's exporter of builds. The environment has the first user's
// password.
const (
	oldExporterUnit = "concourse-exporter.service"
	oldExporterFile = "/etc/systemd/system/" + oldExporterUnit
	oldExporter     = "/usr/local/bin/concourse-exporter.py"
	oldExporterEnv  = "/etc/concourse-exporter.env"
)

// exporter stops the exporter and removes its files. The unit's file is removed last,
// because the other steps are found through it.
func (l *leftovers) exporter() {
	unit, known := l.has(oldExporterFile, oldExporter)
	if known && !unit {
		l.noteKept(oldExporterFile, "it does not run "+oldExporter)
	}
	if unit {
		l.addStep("stop "+oldExporterUnit, func(ctx context.Context, h host.Host) error {
			_, err := h.Run(ctx, resource.Systemctl("disable", "--now", oldExporterUnit))
			return err
		})
	}
	if env, known := l.has(oldExporterEnv, "CONCOURSE_PASSWORD=", "EXPORTER_PORT="); env {
		l.remove(oldExporterEnv)
	} else if known {
		l.noteKept(oldExporterEnv, "it is not an environment of "+oldExporter)
	}
	l.removeToken()
	if script, known := l.has(oldExporter, "concourse_job_last_build_status"); script {
		l.remove(oldExporter)
	} else if known {
		l.noteKept(oldExporter, "it is another program")
	}
	if unit {
		l.addStep("remove "+oldExporterFile, func(ctx context.Context, h host.Host) error {
			if err := h.Remove(oldExporterFile); err != nil {
				return err
			}
			_, err := h.Run(ctx, resource.Systemctl("daemon-reload"))
			return err
		})
	}
}

// unusedKeys removes private keys and notes that the Python charm made on every unit and
// that the unit's role does not use. The worker's key and the web's keys stay, because other
// units have them. A worker's tsa_host_key stays, too. After a downgrade the Python charm
// would make a new one, and overwrite tsa_host_key.pub, which is the web's.
func (l *leftovers) unusedKeys() {
	for _, name := range []string{"session_signing_key", "authorized_worker_keys", ".last_key_authorized_at"} {
		l.remove(path.Join(concourse.KeyDir, name))
	}
	if l.shared() {
		return
	}
	dir := concourse.HomeWebFiles().KeyDir()
	for _, name := range []string{"worker_key", "worker_key.pub", ".last_key_authorized_at"} {
		l.remove(path.Join(dir, name))
	}
}

// shared reports whether several units share HomeDir. Some of them may still run the Python
// charm.
func (l *leftovers) shared() bool { return l.exists(release.SharedMarker) }

// markers removes notes about an installation, except on shared storage.
func (l *leftovers) markers() {
	if l.shared() {
		return
	}
	for _, name := range []string{".installed_version", ".install.lock", ".download_in_progress", ".write_test"} {
		l.remove(path.Join(release.HomeDir, name))
	}
}
