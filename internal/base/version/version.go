// Package version has the version of this build. It never has more than that.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// linked is set by the linker: -X github.com/fourdollars/concourse-ci-machine/internal/base/version.linked=...
var linked string

// Version returns the version that make gave this build. Otherwise it returns the version
// of the module: its release after `go install`, or the commit of a checkout. It returns
// "dev" for a build without either.
func Version() string {
	if linked != "" {
		return linked
	}
	return ofModule(debug.ReadBuildInfo())
}

// ofModule returns the version of the main module, without the v of its tag.
func ofModule(b *debug.BuildInfo, ok bool) string {
	if !ok || b.Main.Version == "(devel)" {
		return "dev"
	}
	return cmp.Or(strings.TrimPrefix(b.Main.Version, "v"), "dev")
}
