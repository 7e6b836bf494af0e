package charmpack

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// lastRelease is the newest one in CHANGELOG.md, with the metadata that it had: a release
// copies metadata.yaml to testdata/released.
func lastRelease(t *testing.T) (version string, m metadata) {
	t.Helper()
	log, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	newest := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - `).FindSubmatch(log)
	require.NotNil(t, newest)
	version = string(newest[1])
	data, err := os.ReadFile("testdata/released/" + version + ".yaml")
	require.NoError(t, err, "copy metadata.yaml of the release there")
	require.NoError(t, strict(data, &m))
	return version, m
}

// endpoints are all names, with what is at them; a resource is refused as an endpoint is.
func (m metadata) endpoints() map[string]string {
	all := map[string]string{}
	for role, ends := range map[string]map[string]relation{"provides": m.Provides, "requires": m.Requires, "peers": m.Peers} {
		for name, e := range ends {
			all[name] = role + " " + e.Interface
		}
	}
	for name := range m.Resources {
		all["resource "+name] = "resource"
	}
	return all
}

// Juju 4.1-beta2 takes a refresh only to a charm whose endpoints and resources the charm in
// use has. From the last release there is always a way: the takeover charm.
func TestTakeoverCharmIsAWayFromTheLastRelease(t *testing.T) {
	version, released := lastRelease(t)
	s := small(t)
	s.Root = "../.."
	whole, err := s.metadata()
	require.NoError(t, err)
	s.Takeover = true
	takeover, err := s.metadata()
	require.NoError(t, err)
	had := released.endpoints()
	for name, what := range takeover.endpoints() {
		require.Equal(t, what, had[name], "%s of %s", name, version)
	}
	// And no release takes an endpoint away or makes it another.
	for name, what := range had {
		require.Equal(t, what, whole.endpoints()[name], "%s of %s", name, version)
	}
	added := slices.DeleteFunc(slices.Sorted(maps.Keys(whole.endpoints())), func(name string) bool { return had[name] != "" })
	page, err := os.ReadFile("../../docs/how-to/upgrade.md")
	require.NoError(t, err)
	for _, name := range added {
		require.Contains(t, string(page), "`"+name+"`", "the page names what a refresh from %s adds", version)
	}
}
