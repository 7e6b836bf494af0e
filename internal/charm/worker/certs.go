package worker

import (
	"crypto/sha256"
	"fmt"
	"path"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
)

// certsFolder is what checks, gets and puts have as their certificates where there are
// private authorities: the machine's, by another name for other authorities. Concourse
// copies the folder once in the life of a worker's name and a folder's
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

// desireCertsFolder is that folder, and later, when the worker was restarted, none of
// those of earlier authorities.
func desireCertsFolder(o Observed, folder string) (now, later []plan.Resource) {
	if folder == "" {
		return nil, []plan.Resource{resource.Absent{Path: concourse.CertsFolders, Why: "there are no private authorities", Tree: true}}
	}
	now = []plan.Resource{resource.Dir{Path: concourse.CertsFolders, Mode: 0o755}, resource.Link{Path: folder, To: role.SystemCerts}}
	for _, name := range o.CertsFolders {
		if p := path.Join(concourse.CertsFolders, name); p != folder {
			later = append(later, resource.Absent{Path: p, Why: "these authorities are not trusted any more"})
		}
	}
	return now, later
}
