package release

import (
	"errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
)

// refusal records a verified download that has another version than its name. Its digest
// identifies it, as for an attached release. While that digest is the tarball's expected
// checksum, the tarball is neither downloaded nor unpacked again.
type refusal struct {
	SHA256  string `json:"sha256"`
	Version string `json:"version"` // the actual version
}

func (r Release) refusalFile() statefile.File[refusal] {
	return statefile.File[refusal]{Path: downloadDir + "/" + r.name() + ".refused.json", Mode: 0o600, Disposable: true}
}

// refuse records that the tarball with that digest has another version, and removes it. The
// record comes first: if a run is killed after it, the next run only unpacks once more.
func (r Release) refuse(root host.Root, sum, version string) error {
	if err := r.refusalFile().Write(root, refusal{SHA256: sum, Version: version}); err != nil {
		return err
	}
	tarball := downloadDir + "/" + r.name()
	return errors.Join(root.Remove(tarball), root.Remove(tarball+".sha256"))
}

// refusedBefore returns the error of a refused tarball with that digest, or nil. It removes
// the stored checksum, so that the next run requests it again and notices another tarball
// on the mirror.
func (r Release) refusedBefore(root host.Root, sum string) error {
	k, err := r.refusalFile().Read(root)
	if err != nil || k.SHA256 != sum {
		return nil // an unreadable record costs one download
	}
	return errors.Join(&VersionError{Path: r.name(), Want: r.Version, Got: k.Version},
		root.Remove(downloadDir+"/"+r.name()+".sha256"))
}
