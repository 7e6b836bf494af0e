package release

import "fmt"

// Each error type implements one of two methods: Temporary() bool if another try may help,
// Remedy() string if only the operator can help. The remedy's text is complete enough for a
// status.

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
	return fmt.Sprintf("cannot download %s: the server says %s", e.URL, e.Status)
}

// Remedy returns the error with a way to fix it.
func (e *notThereError) Remedy() string {
	return e.Error() + "; check version and release-mirror, or attach the release: juju attach-resource " +
		"<application> concourse-release=<tarball>"
}

// noChecksumError reports a release without a known SHA-256.
type noChecksumError struct{ Version, Arch, Name string }

func (e *noChecksumError) Error() string {
	return fmt.Sprintf("no SHA-256 of Concourse %s for %s is known", e.Version, e.Arch)
}

// Remedy returns the error with a way to fix it.
func (e *noChecksumError) Remedy() string {
	return fmt.Sprintf("%s: set release-sha256 to what `sha256sum %s` prints for a copy that you trust, or put "+
		"%s beside the tarball on release-mirror", e.Error(), e.Name, e.Name+".sha256")
}

// checksumError reports a tarball that does not match its checksum. The download has been
// removed.
type checksumError struct{ Path, Want, Got, Source string }

func (e *checksumError) Error() string {
	return fmt.Sprintf("cannot use %s: its SHA-256 is %s, but %s says %s", e.Path, e.Got, e.Source, e.Want)
}

// Remedy returns the error with a way to fix it.
func (e *checksumError) Remedy() string {
	return e.Error() + "; check release-sha256, release-mirror and the attached resource concourse-release"
}

// VersionError reports a release of another version than the wanted one.
type VersionError struct{ Path, Want, Got string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("cannot use %s: it is Concourse %s, wanted is %s", e.Path, e.Got, e.Want)
}

// Remedy returns the error with a way to fix it.
func (e *VersionError) Remedy() string {
	return fmt.Sprintf("%s; set version=%s, or give Concourse %s by release-mirror or as the resource "+
		"concourse-release", e.Error(), e.Got, e.Want)
}

// badReleaseError reports a tarball that is not a Concourse release for this machine, or
// that is malicious.
type badReleaseError struct{ Path, Problem string }

func (e *badReleaseError) Error() string {
	return fmt.Sprintf("cannot unpack %s: %s", e.Path, e.Problem)
}

// Remedy returns the error with a way to fix it.
func (e *badReleaseError) Remedy() string {
	return e.Error() + "; attach or mirror an unchanged concourse-<version>-linux-<arch>.tgz of this machine's " +
		"architecture"
}
