// Package version has the version of this build. It never has more than that.
package version

// Version is set by the linker: -X github.com/fourdollars/concourse-ci-machine/internal/base/version.Version=...
var Version = "dev"
