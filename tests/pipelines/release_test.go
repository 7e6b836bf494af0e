//go:build e2e

package pipelines

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tagged gives a step the input tag: source at a tag, as the git resource with a
// tag_filter leaves it.
func (s *step) tagged(t *testing.T, tag string) {
	t.Helper()
	s.git(t, "source", "tag", tag)
	s.git(t, "", "clone", "-q", s.path("source"), s.path("tag"))
	s.git(t, "tag", "checkout", "-q", tag)
	require.NoError(t, os.WriteFile(s.path("tag/.git/ref"), []byte(tag+"\n"), 0o644))
}

// toRelease is a step with the wheel and what its commit measured, as compare-profile left it.
func toRelease(t *testing.T) (s *step, commit string) {
	t.Helper()
	s, commit = built(t)
	require.NoError(t, os.Rename(s.path("built"), s.path("wheels")))
	c := comparing(t, within, stored, before)
	require.NoError(t, os.Rename(c.one(t, "profile/*"), c.path("profile/profile-20261121163000-"+commit[:12]+".json")))
	c.passes(t, "compare-profile")
	report := c.one(t, "report/*.tar")
	require.Equal(t, "report-20261121163000-"+commit[:12]+".tar", filepath.Base(report))
	require.NoError(t, os.Mkdir(s.path("reports"), 0o755))
	require.NoError(t, os.Rename(report, s.path("reports", filepath.Base(report))))
	return s, commit
}

func TestReleaseHasTheWheelThatWasTested(t *testing.T) {
	s, commit := toRelease(t)
	s.tagged(t, "v1.2.3")
	s.passes(t, "release")
	for name, want := range map[string]string{"name": "v1.2.3\n", "tag": "v1.2.3\n", "commit": commit + "\n"} {
		data, err := os.ReadFile(s.path("release", name))
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	body, err := os.ReadFile(s.path("release/body.md"))
	require.NoError(t, err)
	require.Contains(t, string(body), "- architectures: gfx90a, gfx942\n")
	require.Contains(t, string(body), "| `matmul` | within | 1 → 1.1 | +0.1 s (+10 %) | 1000 → 1512 | +512 MB |")
	files, err := filepath.Glob(s.path("release/files/*"))
	require.NoError(t, err)
	require.Equal(t, []string{
		s.path("release/files/project-1.2.3+rocm-py3-none-any.whl"), s.path("release/files/project-1.2.3+rocm-py3-none-any.whl.sha256"),
		s.path("release/files/v1.2.3-profile.json"), s.path("release/files/v1.2.3-report.md"),
	}, files)
	profile, err := os.ReadFile(files[2])
	require.NoError(t, err)
	require.Equal(t, within, string(profile))
}

// What the newest commit measured is not what the tag's did.
func TestReportOfAReleaseWentTheWayOfItsWheel(t *testing.T) {
	passed := map[string][]string{}
	for _, j := range rocmBuild(t).Jobs {
		for _, d := range j.Plan {
			if d.Get == "reports" {
				passed[j.Name] = d.Passed
			}
		}
	}
	require.Equal(t, map[string][]string{"wheel": {"profile"}, "linux-verify": {"wheel"}, "release": {"linux-verify"}}, passed)
}

func TestReleaseFails(t *testing.T) {
	for want, change := range map[string]func(t *testing.T, s *step){
		"the newest wheel that passed gpu-verify and linux-verify is of ": func(t *testing.T, s *step) {
			s.git(t, "source", "commit", "-q", "--allow-empty", "-m", "later")
			s.tagged(t, "v1.2.3")
		},
		"v1.2.4 would release version 1.2.3+rocm": func(t *testing.T, s *step) { s.tagged(t, "v1.2.4") },
		"'nightly' is no tag v<version>":          func(t *testing.T, s *step) { s.tagged(t, "nightly") },
		"v1.2.3/x' is no tag v<version>":          func(t *testing.T, s *step) { s.tagged(t, "v1.2.3/x") },
		"reports has 0 archives of a profile": func(t *testing.T, s *step) {
			require.NoError(t, os.Remove(s.one(t, "reports/*")))
			s.tagged(t, "v1.2.3")
		},
		"report-20261121163000-0123456789ab.tar is of another commit": func(t *testing.T, s *step) {
			require.NoError(t, os.Rename(s.one(t, "reports/*"), s.path("reports/report-20261121163000-0123456789ab.tar")))
			s.tagged(t, "v1.2.3")
		},
		"wheels has 0 archives of wheels": func(t *testing.T, s *step) {
			require.NoError(t, os.Remove(s.one(t, "wheels/*")))
			s.tagged(t, "v1.2.3")
		},
	} {
		t.Run(want, func(t *testing.T) {
			s, _ := toRelease(t)
			change(t, s)
			s.fails(t, "release", want)
		})
	}
}

// A branch that is checked out, packed or not, is a commit as well.
func TestReleaseKnowsTheCommitOfABranch(t *testing.T) {
	for _, packed := range []bool{false, true} {
		s, _ := toRelease(t)
		require.NoError(t, os.Rename(s.path("source"), s.path("tag")))
		require.NoError(t, os.WriteFile(s.path("tag/.git/ref"), []byte("v1.2.3"), 0o644))
		if packed {
			s.git(t, "tag", "pack-refs", "--all")
		}
		s.passes(t, "release")
	}
}
