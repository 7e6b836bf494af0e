package pipelines

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const token = "ghp_0123456789"

// pullRequest is a step with the input pull-request, as the resource leaves it: the branch
// and the pull request's commit merged, with the token in the URL.
func pullRequest(t *testing.T) *step {
	t.Helper()
	s := newStep(t)
	s.checkout(t, "repository")
	s.git(t, "repository", "checkout", "-q", "-b", "change")
	require.NoError(t, os.Symlink("../ci", s.path("repository/link")))
	require.NoError(t, os.Symlink("nowhere", s.path("repository/broken")))
	require.NoError(t, os.MkdirAll(s.path("repository/src/.git-ignored"), 0o755))
	for name, mode := range map[string]fs.FileMode{"src/.git-ignored/a.py": 0o644, ".lfsconfig": 0o644, "run.sh": 0o755} {
		require.NoError(t, os.WriteFile(s.path("repository", name), []byte(name), mode))
	}
	s.git(t, "repository", "add", ".")
	s.git(t, "repository", "commit", "-q", "-m", "change")
	head := s.git(t, "repository", "rev-parse", "HEAD")
	s.git(t, "repository", "checkout", "-q", "main")
	s.git(t, "repository", "commit", "-q", "--allow-empty", "-m", "meanwhile")

	require.NoError(t, os.Mkdir(s.path("pull-request"), 0o755))
	s.git(t, "pull-request", "init", "-q", "-b", "main")
	s.git(t, "pull-request", "remote", "add", "origin", "https://x-oauth-basic:"+token+"@git.example/team/project.git")
	s.git(t, "pull-request", "pull", "-q", s.path("repository"), "main")
	s.git(t, "pull-request", "fetch", "-q", s.path("repository"), "change")
	s.git(t, "pull-request", "merge", "-q", "--no-stat", head)
	for name, text := range map[string]string{
		"resource/title": "a title",
		// What a submodule with a URL such as ../other has, and git-lfs.
		"modules/other/config": "url = https://x-oauth-basic:" + token + "@git.example/team/other.git",
		"lfs/access":           token,
	} {
		path := s.path("pull-request/.git", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return s
}

func TestCheckoutOfAPullRequestHasNoToken(t *testing.T) {
	needPython(t, "")
	s := pullRequest(t)
	out := s.passes(t, "checkout")
	commit := s.git(t, "pull-request", "rev-parse", "HEAD")
	require.Equal(t, "merged with its branch: "+commit+"\n", out)

	config, err := os.ReadFile(s.path("pull-request/.git/config"))
	require.NoError(t, err)
	require.Contains(t, string(config), token, "or this test shows nothing")
	files := 0
	require.NoError(t, filepath.WalkDir(s.path("source"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		require.NotContains(t, string(data), token, path)
		return err
	}))
	require.Greater(t, files, 5)
}

func TestCheckoutOfAPullRequestIsOneForGit(t *testing.T) {
	needPython(t, "")
	s := pullRequest(t)
	s.passes(t, "checkout")
	require.Equal(t, s.git(t, "pull-request", "log", "--format=%H"), s.git(t, "source", "log", "--format=%H"))
	require.Empty(t, s.git(t, "source", "status", "--porcelain"), "links and modes, too")
	to, err := os.Readlink(s.path("source/link"))
	require.NoError(t, err)
	require.Equal(t, "../ci", to, "a link is not followed where the checkout is")
	s.git(t, "source", "fsck")
}

func TestCheckoutFails(t *testing.T) {
	needPython(t, "")
	for want, change := range map[string]func(t *testing.T, s *step){
		"pull-request/.git": func(t *testing.T, s *step) {
			require.NoError(t, os.RemoveAll(s.path("pull-request/.git")))
		},
		"cannot tell the commit of source": func(t *testing.T, s *step) {
			require.NoError(t, os.WriteFile(s.path("pull-request/.git/HEAD"), []byte(strings.Repeat("x", 40)), 0o644))
		},
	} {
		t.Run(want, func(t *testing.T) {
			s := pullRequest(t)
			change(t, s)
			s.fails(t, "checkout", want)
		})
	}
}
