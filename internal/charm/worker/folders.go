package worker

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// Srv has the folders that tasks see at the same path.
const Srv = "/srv"

// SrvFolders lists the folders that tasks may get. It opens none of them: a folder may be a
// mount of an unreachable server. A machine without /srv has no folders (D53).
func SrvFolders(r host.Root) ([]string, error) {
	entries, err := r.ReadDir(Srv)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, jujuerrors.Annotatef(err, "cannot list %s", Srv)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && oci.FolderNameProblem(e.Name()) == "" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// TaskFolders returns the folders of /srv that the options give to tasks.
func TaskFolders(c config.Config, names []string) (given []string) {
	for _, name := range names {
		if !c.Worker.NoSrvFolders && (len(c.Worker.SrvFolders) == 0 || slices.Contains(c.Worker.SrvFolders, name)) {
			given = append(given, name)
		}
	}
	return given
}

// folderSuffix returns the part of the ready status with the number of folders.
func folderSuffix(o Observed) string {
	readOnly, writable := 0, 0
	for _, name := range TaskFolders(o.Config, o.Folders) {
		if strings.HasSuffix(name, "_writable") || strings.HasSuffix(name, "_rw") {
			writable++
		} else {
			readOnly++
		}
	}
	switch {
	case readOnly+writable == 0:
		return ""
	case writable == 0:
		return " (" + units.Count(readOnly, "folder") + ": read-only)"
	case readOnly == 0:
		return " (" + units.Count(writable, "folder") + ": writable)"
	}
	return fmt.Sprintf(" (%d folders: %d read-only, %d writable)", readOnly+writable, readOnly, writable)
}

// certsFolder returns the folder with the certificates of checks, gets and puts if there
// are private authorities. It links to the machine's certificates, under a new name for
// each set of authorities: Concourse copies a folder once per worker name and folder
// (atc/db/worker_resource_certs.go).
func certsFolder(trusted []relation.Authority) string {
	if len(trusted) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, a := range trusted {
		fmt.Fprintln(sum, a.Fingerprint)
	}
	return fmt.Sprintf("%s/%x", concourse.CertsFolders, sum.Sum(nil)[:8])
}

// desireCertsFolder returns the folder, and for after the worker's restart the removal of
// folders for previous authorities.
func desireCertsFolder(o Observed, folder string) (now, later []plan.Resource) {
	if folder == "" {
		return nil, []plan.Resource{resource.Absent{
			Path: concourse.CertsFolders, Why: "there are no private authorities", Tree: true,
		}}
	}
	now = []plan.Resource{resource.Dir{Path: concourse.CertsFolders, Mode: 0o755}, resource.Link{
		Path: folder, To: role.SystemCerts,
	}}
	for _, name := range o.CertsFolders {
		if p := path.Join(concourse.CertsFolders, name); p != folder {
			later = append(later, resource.Absent{Path: p, Why: "these authorities are not trusted any more"})
		}
	}
	return now, later
}
