package resource

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestLinkIsMadeAndMendedAndNoFileIsReplaced(t *testing.T) {
	h := hosttest.Real(t)
	l := Link{Path: "/opt/l", To: "/etc"}
	hosttest.Put(t, h.Root, "/opt/other", "mine")
	for _, why := range []string{"missing", "it leads to /old"} {
		if why != "missing" {
			require.NoError(t, h.Remove(l.Path))
			hosttest.Link(t, h.Root, l.Path, "/old")
		}
		p, err := l.Diff(t.Context(), h)
		require.NoError(t, err)
		require.Len(t, p, 1)
		require.Equal(t, why, p[0].Why)
		require.NoError(t, p[0].Do(t.Context()))
		p, err = l.Diff(t.Context(), h)
		require.NoError(t, err)
		require.Empty(t, p)
	}
	_, err := Link{Path: "/opt/other", To: "/etc"}.Diff(t.Context(), h)
	require.ErrorContains(t, err, "cannot use /opt/other as a link")
}
