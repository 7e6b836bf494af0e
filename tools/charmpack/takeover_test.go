package charmpack

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The charm for a Juju that takes no endpoint and no resource that the charm in use lacks
// has the Python charm's (its metadata.yaml), and is otherwise the same.
func TestTakeoverCharmHasThePythonCharmsEndpointsAndNoResource(t *testing.T) {
	whole := small(t)
	whole.Root = "../.."
	stripped := whole
	stripped.Takeover = true
	m, err := stripped.metadata()
	require.NoError(t, err)
	require.Equal(t, []string{"monitoring", "tsa"}, slices.Sorted(maps.Keys(m.Provides)))
	require.Equal(t, []string{"flight", "postgresql", "vault-kv"}, slices.Sorted(maps.Keys(m.Requires)))
	require.Equal(t, []string{"peers"}, slices.Sorted(maps.Keys(m.Peers)))
	require.Empty(t, m.Resources)

	all, err := whole.metadata()
	require.NoError(t, err)
	require.NotEmpty(t, all.Resources)
	all.Provides, all.Requires, all.Peers, all.Resources = m.Provides, m.Requires, m.Peers, nil
	require.Equal(t, all, m, "and every other word of it")

	files := func(s Source) map[string]Entry {
		entries, err := s.Entries()
		require.NoError(t, err)
		found := map[string]Entry{}
		for _, e := range entries {
			found[e.Name] = e
		}
		return found
	}
	want, got := files(whole), files(stripped)
	for name, e := range want {
		switch {
		case name == "metadata.yaml":
			require.Empty(t, checkMetadata(got[name].Data))
		case addsEndpoint(name):
			require.NotContains(t, got, name)
			continue
		default:
			require.Equal(t, e, got[name], name)
		}
		delete(got, name)
	}
	require.Empty(t, got)
}

// addsEndpoint reports whether a file is a hook of an endpoint that the Python charm had not.
func addsEndpoint(name string) bool {
	endpoint, _, hook := strings.Cut(strings.TrimPrefix(name, "hooks/"), "-relation-")
	return hook && !slices.Contains(slices.Concat(slices.Collect(maps.Values(predecessors))...), endpoint)
}
