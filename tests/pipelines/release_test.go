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

func TestReleaseHasTheWheelThatWasTested(t *testing.T) {
	s, commit := built(t)
	require.NoError(t, os.Rename(s.path("built"), s.path("wheels")))
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
	files, err := filepath.Glob(s.path("release/files/*"))
	require.NoError(t, err)
	require.Equal(t, []string{s.path("release/files/project-1.2.3+rocm-py3-none-any.whl"), s.path("release/files/project-1.2.3+rocm-py3-none-any.whl.sha256")}, files)
}

func TestReleaseFails(t *testing.T) {
	for want, change := range map[string]func(t *testing.T, s *step){
		"the newest wheel that passed gpu-verify and linux-verify is of ": func(t *testing.T, s *step) {
			s.git(t, "source", "commit", "-q", "--allow-empty", "-m", "later")
			s.tagged(t, "v1.2.3")
		},
		"v1.2.4 would release version 1.2.3+rocm": func(t *testing.T, s *step) { s.tagged(t, "v1.2.4") },
		"'nightly' is no tag v<version>":          func(t *testing.T, s *step) { s.tagged(t, "nightly") },
		"wheels has 0 archives of wheels": func(t *testing.T, s *step) {
			require.NoError(t, os.Remove(s.one(t, "wheels/*")))
			s.tagged(t, "v1.2.3")
		},
	} {
		t.Run(want, func(t *testing.T) {
			s, _ := built(t)
			require.NoError(t, os.Rename(s.path("built"), s.path("wheels")))
			change(t, s)
			s.fails(t, "release", want)
		})
	}
}

// A branch that is checked out, packed or not, is a commit as well.
func TestReleaseKnowsTheCommitOfABranch(t *testing.T) {
	for _, packed := range []bool{false, true} {
		s, _ := built(t)
		require.NoError(t, os.Rename(s.path("built"), s.path("wheels")))
		require.NoError(t, os.Rename(s.path("source"), s.path("tag")))
		require.NoError(t, os.WriteFile(s.path("tag/.git/ref"), []byte("v1.2.3"), 0o644))
		if packed {
			s.git(t, "tag", "pack-refs", "--all")
		}
		s.passes(t, "release")
	}
}
