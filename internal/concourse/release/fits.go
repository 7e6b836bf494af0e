package release

import (
	"path"

	"concourse-ci-machine/internal/base/host"
)

// Fits reports whether a web of one version gives work to a worker of the other: the
// major version of their protocol is 2 up to Concourse 8.2, and 3 from 8.3 on
// (versions.go of Concourse; atc/worker/pool.go compares). What is not x.y.z fits.
func Fits(web, worker string) bool {
	a, b := protocol(web), protocol(worker)
	return a == 0 || b == 0 || a == b
}

// protocol returns the major version, 0 if the version of Concourse is not x.y.z.
func protocol(version string) int {
	switch {
	case !isVersion(version):
		return 0
	case compareVersions(version, "8.3.0") < 0:
		return 2
	}
	return 3
}

// VersionOf returns the version of a release that is unpacked, "" if it can't be read.
func VersionOf(r host.Root, id string) string {
	version, err := r.ReadText(path.Join(Dir, id, "VERSION"))
	if err != nil {
		return ""
	}
	return version
}
