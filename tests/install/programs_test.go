//go:build e2e

package install

import "testing"

// The release's packages have another path than those of this tree, so all are compiled again.
func TestProgramsAreInstalledByTheirPathAndVersion(t *testing.T) {
	u := newUser(t)
	for _, program := range []string{"gpukit", "rocm-exporter"} {
		u.install(t, program)
	}
}
