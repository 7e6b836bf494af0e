package release

import "fmt"

// Each error type implements one of two methods: Temporary() bool where
// another try may mend it, Remedy() string where only the operator can; the
// remedy's text is complete enough for a status.

// NetworkError is a download that did not come through.
type NetworkError struct {
	URL      string // without user name and password
	Attempts int
	Err      error
}

func (e *NetworkError) Error() string {
	return fmt.Sprintf("cannot download %s (attempt %d of %d): %v", e.URL, e.Attempts, maxAttempts, e.Err)
}
func (e *NetworkError) Unwrap() error { return e.Err }

// Temporary says that another try can help.
func (e *NetworkError) Temporary() bool { return true }

// notThereError is a server that does not have, or does not give out, what
// was asked for.
type notThereError struct {
	URL    string // without user name and password
	Status string // "404 Not Found"
}

func (e *notThereError) Error() string {
	return fmt.Sprintf("cannot download %s: the server says %s", e.URL, e.Status)
}

// Remedy says what the operator can do.
func (e *notThereError) Remedy() string {
	return e.Error() + "; check version and release-mirror, or attach the release: juju attach-resource <application> concourse-release=<tarball>"
}

// noChecksumError is a release that nothing says the SHA-256 of.
type noChecksumError struct{ Version, Arch, Name string }

func (e *noChecksumError) Error() string {
	return fmt.Sprintf("no SHA-256 of Concourse %s for %s is known", e.Version, e.Arch)
}

// Remedy says what the operator can do.
func (e *noChecksumError) Remedy() string {
	return fmt.Sprintf("%s: set release-sha256 to what `sha256sum %s` prints for a copy that you trust, or put %s beside the tarball on release-mirror", e.Error(), e.Name, e.Name+".sha256")
}

// checksumError is a tarball that is not what its checksum says. The download
// has been thrown away.
type checksumError struct{ Path, Want, Got, Source string }

func (e *checksumError) Error() string {
	return fmt.Sprintf("cannot use %s: its SHA-256 is %s, but %s says %s", e.Path, e.Got, e.Source, e.Want)
}

// Remedy says what the operator can do.
func (e *checksumError) Remedy() string {
	return e.Error() + "; check release-sha256, release-mirror and the attached resource concourse-release"
}

// VersionError is a release that is another version than the one wanted.
type VersionError struct{ Path, Want, Got string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("cannot use %s: it is Concourse %s, wanted is %s", e.Path, e.Got, e.Want)
}

// Remedy says what the operator can do.
func (e *VersionError) Remedy() string {
	return fmt.Sprintf("%s; set version=%s, or give Concourse %s by release-mirror or as the resource concourse-release", e.Error(), e.Got, e.Want)
}

// badReleaseError is a tarball that is not a Concourse release for this
// machine, or not an honest one.
type badReleaseError struct{ Path, Problem string }

func (e *badReleaseError) Error() string {
	return fmt.Sprintf("cannot unpack %s: %s", e.Path, e.Problem)
}

// Remedy says what the operator can do.
func (e *badReleaseError) Remedy() string {
	return e.Error() + "; attach or mirror an unchanged concourse-<version>-linux-<arch>.tgz of this machine's architecture"
}
