package release

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestLinksThatNameNoReleaseAreNone(t *testing.T) {
	for _, text := range []string{"", "/etc/passwd", "/var/lib/concourse/releases", "/var/lib/concourse/releases/..",
		"/var/lib/concourse/releases/.download", "releases/8.2.5", "8.2.5", "/var/lib/concourse/releases/a/b"} {
		h := machine(t)
		if text != "" {
			hosttest.Link(t, h.Root, Link, text)
		}
		id, ok := linkedRelease(h.Root, Link)
		require.False(t, ok, "%q names %q", text, id)
	}
	h := machine(t)
	hosttest.Link(t, h.Root, Link, "/var/lib/concourse/releases/8.2.5")
	id, ok := linkedRelease(h.Root, Link)
	require.True(t, ok)
	require.Equal(t, "8.2.5", id)
}
