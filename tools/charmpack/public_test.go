package charmpack

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What people look for on a charm's page.
func TestMetadataHasLinksAndDescriptions(t *testing.T) {
	m, err := Source{Root: "../.."}.metadata()
	require.NoError(t, err)
	for name, link := range map[string]any{"docs": m.Docs, "issues": m.Issues, "source": m.Source, "website": m.Website} {
		u, err := url.Parse(link.(string))
		require.NoError(t, err, name)
		require.Equal(t, "https", u.Scheme, name)
		require.NotContains(t, u.Host, "example", name)
	}
	require.IsIncreasing(t, m.Tags)
	for _, group := range []map[string]relation{m.Provides, m.Requires, m.Peers} {
		for name, r := range group {
			require.NotEmpty(t, r.Description, name)
			require.False(t, strings.HasSuffix(r.Description, "."), name)
		}
	}
	require.Equal(t, []any{"juju >= 3.6"}, m.Assumes)
}
