package charmpack

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// lastRelease returns the newest release in CHANGELOG.md, with the metadata that
// testdata/released keeps of it. The version is empty before the first release.
func lastRelease(t *testing.T) (version string, m metadata) {
	t.Helper()
	log, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	newest := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - `).FindSubmatch(log)
	if newest == nil {
		require.NoDirExists(t, "testdata/released", "it has releases that CHANGELOG.md lacks")
		return "", m
	}
	version = string(newest[1])
	data, err := os.ReadFile("testdata/released/" + version + ".yaml")
	require.NoError(t, err, "copy metadata.yaml there, as .github/RELEASING.md describes")
	require.NoError(t, strict(data, &m))
	return version, m
}

// endpoints returns all names, each with its role and interface. Resources are among them,
// because Juju refuses a missing resource as it refuses a missing endpoint.
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

// missingIn returns the endpoints and resources of m that the other charm lacks or has
// with another role or interface.
func (m metadata) missingIn(other metadata) []string {
	has := other.endpoints()
	missing := maps.Clone(m.endpoints())
	maps.DeleteFunc(missing, func(name, what string) bool { return has[name] == what })
	return slices.Sorted(maps.Keys(missing))
}

func TestMissingEndpointsAreFound(t *testing.T) {
	released := metadata{
		Provides:  map[string]relation{"tsa": {Interface: "concourse-ci_tsa"}},
		Requires:  map[string]relation{"ldap": {Interface: "ldap"}},
		Resources: map[string]resource{"concourse-release": {}},
	}
	require.Empty(t, released.missingIn(released))
	for name, next := range map[string]metadata{
		"ldap": {Provides: released.Provides, Resources: released.Resources},
		"tsa": {Provides: map[string]relation{"tsa": {Interface: "other"}}, Requires: released.Requires,
			Resources: released.Resources},
		"resource concourse-release": {Provides: released.Provides, Requires: released.Requires},
	} {
		require.Equal(t, []string{name}, released.missingIn(next))
	}
}

// TestReleasedEndpointsStay compares the charm with the last release. A deployment can relate
// to each endpoint of the release. Juju 4.1-beta2 refuses a refresh to a charm with new
// endpoints, so the page on upgrades must name them, and the takeover charm must have none.
func TestReleasedEndpointsStay(t *testing.T) {
	version, released := lastRelease(t)
	if version == "" {
		return
	}
	s := small(t)
	s.Root = "../.."
	whole, err := s.metadata()
	require.NoError(t, err)
	require.Empty(t, released.missingIn(whole), "of %s", version)
	s.Takeover = true
	takeover, err := s.metadata()
	require.NoError(t, err)
	require.Empty(t, takeover.missingIn(released), "of the takeover charm")
	page, err := os.ReadFile("../../docs/how-to/upgrade.md")
	require.NoError(t, err)
	for _, name := range whole.missingIn(released) {
		require.Contains(t, string(page), "`"+name+"`", "the page names what a refresh from %s adds", version)
	}
}
