package release

import (
	"errors"
	"fmt"
	"path"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// Each error type implements one of two methods: Temporary() bool if another try may help,
// Remedy(wellknown.Commands) if only the operator can help.

// NetworkError reports a failed download.
type NetworkError struct {
	URL      string // without user name and password
	Attempts int
	Err      error
}

func (e *NetworkError) Error() string {
	return fmt.Sprintf("cannot download %s (attempt %d of %d): %v", e.URL, e.Attempts, maxAttempts, e.Err)
}
func (e *NetworkError) Unwrap() error { return e.Err }

// Temporary returns true.
func (e *NetworkError) Temporary() bool { return true }

// notThereError reports a server that does not have the file, or refuses it.
type notThereError struct {
	URL    string // without user name and password
	Status string // "404 Not Found"
}

func (e *notThereError) Error() string {
	return fmt.Sprintf("cannot download %s: the server returned %s", e.URL, e.Status)
}

// Remedy returns the cause with a way to fix it.
func (e *notThereError) Remedy(c wellknown.Commands) status.Cause {
	return status.Block("no %s: the server returned %s", path.Base(e.URL), e.Status).
		Explain("%v; check version and release-mirror, or attach the release", e).
		Run(c.GiveRelease())
}

// noChecksumError reports a release without a known SHA-256.
type noChecksumError struct{ Version, Arch, Name string }

func (e *noChecksumError) Error() string {
	return fmt.Sprintf("no SHA-256 of Concourse %s for %s is known", e.Version, e.Arch)
}

// Remedy returns the cause with a way to fix it.
func (e *noChecksumError) Remedy(wellknown.Commands) status.Cause {
	return status.Block("%s: set release-sha256", e).
		Explain("its value is the first word that `sha256sum %s` prints for a copy that you trust; "+
			"instead you can put "+
			"%s beside the tarball on release-mirror", e.Name, e.Name+".sha256")
}

// checksumError reports a tarball that does not match its checksum. The download has been
// removed.
type checksumError struct{ Path, Want, Got, Source string }

func (e *checksumError) Error() string {
	return fmt.Sprintf("cannot use %s: its SHA-256 is %s, but %s has %s", e.Path, e.Got, e.Source, e.Want)
}

// Remedy returns the cause with a way to fix it.
func (e *checksumError) Remedy(wellknown.Commands) status.Cause {
	return status.Block("wrong SHA-256: %s", path.Base(e.Path)).
		Explain("%v; check release-sha256, release-mirror and the attached resource concourse-release", e)
}

// VersionError reports a release of another version than the wanted one.
type VersionError struct{ Path, Want, Got string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("cannot use %s: it is Concourse %s, wanted is %s", e.Path, e.Got, e.Want)
}

// Remedy returns the cause with a way to fix it.
func (e *VersionError) Remedy(wellknown.Commands) status.Cause {
	return status.Block("the release is Concourse %s, wanted is %s", e.Got, e.Want).
		Explain("%v; set version=%s, or give Concourse %s "+
			"through release-mirror or the resource concourse-release", e,
			e.Got, e.Want)
}

// badReleaseError reports a tarball that is not a Concourse release for this machine, or
// that is malicious.
type badReleaseError struct{ Path, Problem string }

func (e *badReleaseError) Error() string {
	return fmt.Sprintf("cannot unpack %s: %s", e.Path, e.Problem)
}

// Remedy returns the cause with a way to fix it.
func (e *badReleaseError) Remedy(wellknown.Commands) status.Cause {
	return status.Block("cannot unpack %s", path.Base(e.Path)).
		Explain("%s: %s; attach or mirror an unchanged "+
			"concourse-<version>-linux-<arch>.tgz of this machine's architecture",
			e.Path, e.Problem)
}

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
