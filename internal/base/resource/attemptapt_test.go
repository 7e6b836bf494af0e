package resource

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
)

// What apt and dpkg write where a package can't be installed, and what of it a
// status says.
func TestCauseOfAFailedInstallation(t *testing.T) {
	for name, c := range map[string]struct{ stderr, want string }{
		"a script failed": {"dpkg: error processing package pkg (--configure):\n installed pkg package post-installation script subprocess returned error exit status 1\n" +
			"Errors were encountered while processing:\n pkg\nE: Sub-process /usr/bin/dpkg returned an error code (1)",
			"installed pkg package post-installation script subprocess returned error exit status 1"},
		"an archive failed": {"dpkg: error processing archive /var/cache/apt/archives/pkg_1_all.deb (--unpack):\n new pkg package pre-installation script subprocess returned error exit status 1\nE: Sub-process /usr/bin/dpkg returned an error code (1)",
			"new pkg package pre-installation script subprocess returned error exit status 1"},
		"cut off": {"dpkg: error processing package pkg (--configure):", "dpkg: error processing package pkg (--configure):"},
		"on hold": {"E: Held packages were changed and -y was used without --allow-change-held-packages.",
			"it is on hold; on the unit run: sudo apt-mark unhold pkg"},
		"no such version": {"E: Version '1.4.0*' for 'pkg' was not found", "Version '1.4.0*' for 'pkg' was not found"},
	} {
		e := &host.CommandError{Argv: []string{"apt-get", "install", "pkg=1.2.0*"}, Code: 100, Stderr: c.stderr}
		require.Equal(t, c.want, attemptCause(e, "repo.radeon.com", "AMD"), name)
	}
}
