// Package version is the version of this build and nothing else.
package version

// Version is set by the linker: -X concourse-ci-machine/internal/base/version.Version=...
var Version = "dev"
