package docs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// part is something of others that gets older, with the version that this project uses.
type part struct {
	name, current string
	versions      []version // oldest first
}

// version is one version of a part.
type version struct {
	number, date, source string // date "" if not known, and its origin
	tried                string // what ran with it here; "" if nothing did
}

// passedOver holds the versions that were tried and do not become the default, with the
// reason.
var passedOver = map[string]string{
	"Ubuntu, the default base 26.04": "not the default: no packages of ROCm are known to work on it",
}

// notes holds what a reader of the page needs to know of a version, next to what tried it.
var notes = map[string]string{
	"Concourse 8.3.0": "a build of its source five days older ran tests/concourse, with the upgrade and the way back, and tests/web",
}

// parts is the table of what ages. After a run with a newer version, fill its tried:
// the test then asks for the default to follow.
func parts(t *testing.T) []part {
	one := func(file, pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(readFile(t, file))
		require.Len(t, found, 2, "%s: %s", file, pattern)
		return found[1]
	}
	newest, err := amd.FindRelease("", "", "")
	require.NoError(t, err)
	rocms := part{name: "ROCm", current: newest.ROCm}
	for _, r := range amd.Releases() {
		v := version{r.ROCm, r.Date, "its row in rocm-releases.md", ""}
		if slices.Contains([]string{"6.3.2", "7.2.4"}, r.ROCm) {
			v.tried = "tests/rocm, with stand-ins of its packages"
		}
		rocms.versions = append(rocms.versions, v)
	}
	return []part{
		{"Concourse", release.TestedVersion, []version{
			{"8.2.5", "", "the release itself", "tests/concourse and tests/web, whole"},
			{"8.3.0", "2026-08", "Concourse's release notes", ""},
		}},
		rocms,
		{"AMD's container toolkit", "1.3.0", []version{
			{"1.2.0", "2025-11", "AMD's release notes", ""},
			{"1.3.0", "2026-05", "AMD's release notes; ROCm/container-toolkit#137 for Ubuntu 26.04",
				"tests/rocm and tests/lxd, with stand-ins of its package"},
		}},
		{"Ubuntu, the default base", one("charmcraft.yaml", `(?m)^platforms:\n  ubuntu@([0-9.]+):`), []version{
			{"22.04", "2022-04", "its number", "tests/lxd with TEST_BASE"},
			{"24.04", "2024-04", "its number", "tests/lxd; tests/controller"},
			{"26.04", "2026-04", "its number", "tests/lxd with TEST_BASE"},
		}},
		{"Kubernetes", one("tests/kubernetes/k8s/go.mod", `k8s.io/kubernetes v(\S+)`), []version{
			{"1.34.4", "2026-02", "the module proxy", "tests/kubernetes"},
			{"1.36.5", "2026-09", "the module proxy", "tests/kubernetes"},
			{"1.37.2", "2026-10", "the module proxy", "tests/kubernetes"},
		}},
		{"Juju, its agent and hook tools", one("Makefile", `test-juju:.* Juju (\S+)'s own agent`), []version{
			{"3.6.11", "", "the module proxy", "tests/juju"},
		}},
		{"Juju, its controller", one("tests/controller/juju/go.mod", `programs of Juju (\S+) for`), []version{
			{"4.0.15", "2026-09", "Juju's release notes; no source of its tag is on the module proxy", ""},
			{"4.1-beta2", "", "the module proxy", "tests/controller"},
		}},
	}
}

func TestWhatAgesIsOnItsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| part | version | date | found in | tried with |\n|---|---|---|---|---|\n")
	for _, p := range parts(t) {
		for _, v := range p.versions {
			number := v.number
			if number == p.current {
				number = "**" + number + "**"
			} else if v.tried == "" && slices.Contains([]string{"ROCm", "AMD's container toolkit"}, p.name) {
				continue // docs/reference/rocm-releases.md has it
			}
			tried := cmp.Or(v.tried, "not yet")
			for _, why := range []string{passedOver[p.name+" "+v.number], notes[p.name+" "+v.number]} {
				if why != "" {
					tried += "; " + why
				}
			}
			require.NotEmpty(t, v.source, "%s %s", p.name, v.number)
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", p.name, number, cmp.Or(v.date, "not known"), v.source, tried)
		}
	}
	const name = "tests/README.md"
	hosttest.Golden(t, filepath.Join(root, name), withSection(t, readFile(t, name), "versions", b.String()+"\n"))
}

func TestSupportMatrixNamesTheVersionsInUse(t *testing.T) {
	page := readFile(t, "docs/reference/support.md")
	for _, p := range parts(t) {
		if p.name == "AMD's container toolkit" {
			continue // tasks do not need it
		}
		require.Contains(t, page, p.current, p.name)
	}
	for _, r := range amd.Releases() {
		require.Contains(t, page, r.ROCm)
	}
}

// A version that was tried and is not used was forgotten.
func TestDefaultsAreTheNewestThatWereTried(t *testing.T) {
	for _, p := range parts(t) {
		current := slices.IndexFunc(p.versions, func(v version) bool { return v.number == p.current })
		require.GreaterOrEqual(t, current, 0, "%s %s is in no row of the table", p.name, p.current)
		require.NotEmpty(t, p.versions[current].tried, "%s %s is used and was never tried", p.name, p.current)
		for _, v := range p.versions[current+1:] {
			if passedOver[p.name+" "+v.number] != "" {
				require.NotEmpty(t, v.tried, "%s %s is passed over and was never tried", p.name, v.number)
				continue
			}
			require.Empty(t, v.tried, "%s %s was tried, and the default is still %s", p.name, v.number, p.current)
		}
	}
}
