// Package predecessor knows what the Python charm, which this one takes over from by
// `juju refresh`, made of a machine: how to tell, what is kept of it (keys, names, the
// database's encryption) and what is to be taken away.
package predecessor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
)

// Why of every step here.
const predecessors = "left by the Python charm"

// Leftovers is what takes away what the Python charm left on a machine: its
// exporter, its wrappers of runc with the links and copies that they need, its
// changes to the configurations of containerd and of NVIDIA's runtime, and keys
// and markers that nothing uses. It comes after the worker or the web is as it
// should be, so that until then the Python charm's keeps working, and before an
// exporter, as the Python charm's has its port.
//
// What something is, its place and its content decide; a file of the
// operator's in such a place stays, see Remarks. What may be of use to
// anyone else stays too: packages and their sources, fly, the CDI file, the
// modes of device nodes, certificates, and all that lies on shared storage.
// The environment files and unit files are not looked at here: whoever writes
// them replaces them.
//
// Each step is found by what is still there, so a run that was killed is gone on
// with by the next. On a machine that never had that charm it is empty.
func Leftovers(root host.Root) []plan.Resource { return look(root).gone }

// Remarks names files that are not the Python charm's in places where
// it had its own, while Leftovers has something to do.
func Remarks(root host.Root) []string {
	l := look(root)
	if len(l.gone) == 0 {
		return nil
	}
	return l.kept
}

// leftovers are collected in the order in which they go.
type leftovers struct {
	root host.Root
	gone []plan.Resource
	kept []string
}

func look(root host.Root) *leftovers {
	l := &leftovers{root: root}
	l.exporter()
	l.unusedKeys()
	l.markers()
	l.runtime()
	return l
}

// remove takes paths away that only the Python charm has used.
func (l *leftovers) remove(paths ...string) {
	for _, p := range paths {
		if l.there(p) {
			l.gone = append(l.gone, resource.Absent{Path: p, Why: predecessors})
		}
	}
}

func (l *leftovers) do(op string, do func(ctx context.Context, h host.Host) error) {
	l.gone = append(l.gone, leftover{plan.Step{Op: op, Why: predecessors}, do})
}

// tolerated is do for a step that the rest needs not.
func (l *leftovers) tolerated(op string, do func(ctx context.Context, h host.Host) error) {
	l.gone = append(l.gone, leftover{plan.Step{Op: op, Why: predecessors, Tolerate: true}, do})
}

// keep notes a file that is somebody else's.
func (l *leftovers) keep(p, why string) { l.kept = append(l.kept, fmt.Sprintf("kept %s: %s", p, why)) }

func (l *leftovers) there(p string) bool {
	_, err := l.root.Lstat(p)
	return err == nil
}

// has reports whether a regular file holds all the words; known is false where
// there is no such file.
func (l *leftovers) has(p string, words ...string) (has, known bool) {
	data, err := l.text(p)
	if err != nil {
		return false, false
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !bytes.Contains(data, []byte(w)) }), true
}

// maxText is more than any text here has; what is longer is a program.
const maxText = 1 << 20

// text is the content of a regular file.
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

// leftover is one step that is known to be due.
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

// The Python charm's exporter of builds, whose environment has the first
// user's password.
const (
	oldExporterUnit = "concourse-exporter.service"
	oldExporterFile = "/etc/systemd/system/" + oldExporterUnit
	oldExporter     = "/usr/local/bin/concourse-exporter.py"
	oldExporterEnv  = "/etc/concourse-exporter.env"
)

// exporter stops it before its files go; the unit's file goes last, as the
// other steps are found by it too.
func (l *leftovers) exporter() {
	unit, known := l.has(oldExporterFile, oldExporter)
	if known && !unit {
		l.keep(oldExporterFile, "it does not run "+oldExporter)
	}
	if unit {
		l.do("stop "+oldExporterUnit, func(ctx context.Context, h host.Host) error {
			_, err := h.Run(ctx, resource.Systemctl("disable", "--now", oldExporterUnit))
			return err
		})
	}
	if env, known := l.has(oldExporterEnv, "CONCOURSE_PASSWORD=", "EXPORTER_PORT="); env {
		l.remove(oldExporterEnv)
	} else if known {
		l.keep(oldExporterEnv, "it is no environment of "+oldExporter)
	}
	l.token()
	if script, known := l.has(oldExporter, "concourse_job_last_build_status"); script {
		l.remove(oldExporter)
	} else if known {
		l.keep(oldExporter, "it is another program")
	}
	if unit {
		l.do("remove "+oldExporterFile, func(ctx context.Context, h host.Host) error {
			if err := h.Remove(oldExporterFile); err != nil {
				return err
			}
			_, err := h.Run(ctx, resource.Systemctl("daemon-reload"))
			return err
		})
	}
}

// unusedKeys are private keys that the Python charm made on every unit and that
// the unit's role has no use for, and what it noted beside them. The worker's key
// and the web's own stay: others know them. So does a worker's tsa_host_key, which
// nobody knows: the Python charm, gone back to, would make another one and with it
// overwrite tsa_host_key.pub, which is the web's.
func (l *leftovers) unusedKeys() {
	for _, name := range []string{"session_signing_key", "authorized_worker_keys", ".last_key_authorized_at"} {
		l.remove(path.Join(concourse.KeyDir, name))
	}
	if l.shared() {
		return
	}
	dir := concourse.WebFiles(false).KeyDir()
	for _, name := range []string{"worker_key", "worker_key.pub", ".last_key_authorized_at"} {
		l.remove(path.Join(dir, name))
	}
}

// shared reports whether HomeDir is storage of several units, of which some may
// still be the Python charm's.
func (l *leftovers) shared() bool { return l.there(release.SharedMarker) }

// markers are notes of an installation. On shared storage they go with it.
func (l *leftovers) markers() {
	if l.shared() {
		return
	}
	for _, name := range []string{".installed_version", ".install.lock", ".download_in_progress", ".write_test"} {
		l.remove(path.Join(release.HomeDir, name))
	}
}
