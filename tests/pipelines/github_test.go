//go:build e2e

package pipelines

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/act"
)

// onGitHub is a project on GitHub that calls the workflow rocm as pipelines/github/caller.yml does.
type onGitHub struct {
	project   *step
	with      map[string]string // inputs
	env       []string
	artifacts string
	gh        string // what gh was called with
}

const twoGPUs = `{"hip": "7.0.2", "built": ["gfx90a", "gfx942"], "gpus": [{"name": "MI300X", "arch": "gfx942"}]}`

const profileOfA = `{"examples": {"a": {"status": "ok", "duration_s": 1.5, "peak_memory_mb": 8}}}`

func newOnGitHub(t *testing.T) *onGitHub {
	t.Helper()
	python := needPython(t, "pip, venv, ensurepip")
	g := &onGitHub{project: newStep(t), artifacts: t.TempDir(), gh: filepath.Join(t.TempDir(), "calls")}
	bin := t.TempDir()
	require.NoError(t, os.Symlink(python, filepath.Join(bin, "python3")))
	// act asks it for a token.
	gh := "#!/bin/sh\n[ \"$1\" = release ] || exit 1\necho \"$*\" >>" + g.gh + "\n[ \"$2\" != view ]\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "gh"), []byte(gh), 0o755))
	stand, err := filepath.Abs("testdata/python")
	require.NoError(t, err)
	g.env = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "CI_SOURCE=" + g.project.path("ci"),
		"CI_FROM=team/ci@0123abc",
		"ARTIFACTS=" + g.artifacts, "PYTHONPATH=" + stand, "PYTHONDONTWRITEBYTECODE=1", "FAKE_TORCH=" + twoGPUs}
	require.NoError(t, os.CopyFS(g.project.path("ci/pipelines/github"), os.DirFS(filepath.Join(dir, "github"))))
	g.with = map[string]string{
		"module": "project", "architectures": "gfx90a,gfx942", "gfx": "gfx942", "python": python,
		"ci-repo": "team/ci", "ci-commit": "0123abc",
		"install-command": "echo installed for $PYTORCH_ROCM_ARCH", "unit-command": `python -c "import project"`,
		"wheel-command":   `python -c "import project; print('from', project.__file__)"`,
		"profile-command": "echo '" + profileOfA + `' >"$PROFILE_JSON"`,
		"verify-pip-args": "--no-index",
	}
	return g
}

// run commits the project with its workflow and runs that, with more flags of act.
func (g *onGitHub) run(t *testing.T, event string, args ...string) (out string, passed bool) {
	t.Helper()
	var caller map[string]any
	read(t, filepath.Join(dir, "github/caller.yml"), &caller)
	caller["jobs"].(map[string]any)["rocm"].(map[string]any)["with"] = g.with
	text, err := yaml.Marshal(caller)
	require.NoError(t, err)
	p := g.project
	if _, err := os.Stat(p.path("source")); err != nil {
		require.NoError(t, os.CopyFS(p.path("source"), os.DirFS("testdata/project")))
		p.git(t, "source", "init", "-q", "-b", "main")
		p.git(t, "source", "remote", "add", "origin", "https://github.com/team/project")
	}
	require.NoError(t, os.MkdirAll(p.path("source/.github/workflows"), 0o755))
	require.NoError(t, os.WriteFile(p.path("source/.github/workflows/rocm.yml"), text, 0o644))
	p.git(t, "source", "add", ".")
	p.git(t, "source", "commit", "-q", "--allow-empty", "-m", "change")
	return act.Workflow(t, act.Program(t), act.Run{Dir: p.path("source"), Event: event, Env: g.env, Actions: actions(t),
		Args: append([]string{"-P", "ubuntu-24.04=-self-hosted"}, args...)})
}

// actions returns the stand-ins of the actions that the workflow uses, and the workflow itself.
func actions(t *testing.T) map[string]string {
	t.Helper()
	source := hosttest.Source()
	text, err := os.ReadFile(filepath.Join(source, ".github/workflows/rocm.yml"))
	require.NoError(t, err)
	all := map[string]string{"fourdollars/concourse-ci-machine@main": source}
	uses := regexp.MustCompile(`uses: (actions/([\w-]+)@[0-9a-f]{40})`)
	for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = filepath.Join(source, "tests/pipelines/testdata/actions", m[2])
		require.DirExists(t, all[m[1]])
	}
	return all
}

func (g *onGitHub) stored(t *testing.T, name string) (files []string) {
	t.Helper()
	top := filepath.Join(g.artifacts, name)
	require.NoError(t, filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(g.artifacts, path)
			files = append(files, regexp.MustCompile(`[0-9]{14}-[0-9a-f]{12}`).ReplaceAllString(path, "TIME-COMMIT"))
		}
		return err
	}))
	return files
}

// event writes the payload of an event and returns the flags for it.
func event(t *testing.T, payload string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "event.json")
	require.NoError(t, os.WriteFile(path, []byte(payload), 0o600))
	return []string{"--eventpath", path}
}

// pullRequestFrom returns the flags for a pull request from a repository.
func pullRequestFrom(t *testing.T, from string) []string {
	t.Helper()
	return event(t, `{"pull_request": {"head": {"repo": {"full_name": "`+from+`"}}}}`)
}

func TestTagOnGitHubBecomesAVerifiedAndReleasedWheel(t *testing.T) {
	g := newOnGitHub(t)
	g.with["test-on"] = `["gfx942"]`
	out, passed := g.run(t, "push", event(t, `{"ref": "refs/tags/v1.2.3"}`)...)
	require.True(t, passed, out)
	for _, want := range []string{
		"installed for gfx942\n", "GPU 0: MI300X, gfx942\n", "torch is built for: gfx90a gfx942\n",
		"[rocm/rocm/gpu-verify", "project/_C.so: gfx90a gfx942\n",
		"project-1.2.3+rocm-py3-none-any.whl runs on gfx942\n", "project installs and imports\n",
	} {
		require.Contains(t, out, want)
	}
	require.Equal(t, []string{"linux-rocm/dist/rocm/project-1.2.3+rocm-py3-none-any.whl",
		"linux-rocm/profile/profile-TIME-COMMIT.json", "linux-rocm/report/report.md"}, g.stored(t, "linux-rocm"))
	require.Equal(t, []string{"linux-build/built/wheel-TIME-COMMIT.tar", "linux-build/report/report-TIME-COMMIT.tar"},
		g.stored(t, "linux-build"))
	calls, err := os.ReadFile(g.gh)
	require.NoError(t, err)
	require.Regexp(t, `^release view v1.2.3
release create v1.2.3 --verify-tag --title v1.2.3 --notes-file release/body.md
release upload v1.2.3 --clobber release/files/project-1.2.3\+rocm-py3-none-any.whl `+
		`release/files/project\S+.whl.sha256 release/files/v1.2.3-profile.json release/files/v1.2.3-report.md
$`, string(calls))
}

func TestDefectsOnGitHubAreAnnotated(t *testing.T) {
	for name, row := range map[string]struct {
		change func(g *onGitHub)
		want   string
	}{ // each in a pull request of the same repository
		"torch without HIP": {func(g *onGitHub) { g.env = append(g.env, `FAKE_TORCH={}`) },
			"::error title=torch is not for ROCm::torch 2.6.0 was built without HIP"},
		"a test fails": {func(g *onGitHub) { g.with["unit-command"] = `python -c "assert 1 == 2"` },
			"::error title=A test failed::UNIT_COMMAND exits with 1"},
		"another commit of the scripts": {func(g *onGitHub) { g.with["ci-commit"] = "" },
			"no such commit: team/ci@the-input-ci-commit-is-empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newOnGitHub(t)
			row.change(g)
			out, passed := g.run(t, "pull_request", pullRequestFrom(t, "team/project")...)
			require.False(t, passed, out)
			require.Contains(t, out, row.want)
			require.NotContains(t, out, "Run Main Build ROCm wheel")
			require.NotContains(t, out, "[rocm/rocm/linux-verify]")
			require.NoDirExists(t, filepath.Join(g.artifacts, "linux-build"))
		})
	}
}

// A runner is a machine: strangers must not start programs on it.
func TestPullRequestsOfForksRunNothingOnGitHub(t *testing.T) {
	g := newOnGitHub(t)
	out, passed := g.run(t, "pull_request", pullRequestFrom(t, "eve/project")...)
	require.True(t, passed, out)
	require.NotContains(t, out, "Run Main")
}

const notReleased = "::error title=The wheels are not released::"

// release runs release.sh with what the jobs of these systems handed over.
func release(t *testing.T, tag, gh string, systems ...string) (out string, code int, calls string) {
	t.Helper()
	from, commit := toRelease(t)
	w, bin := t.TempDir(), t.TempDir()
	for _, system := range systems {
		require.NoError(t, os.CopyFS(filepath.Join(w, system+"-build/built"), os.DirFS(from.path("wheels"))))
		require.NoError(t, os.CopyFS(filepath.Join(w, system+"-build/report"), os.DirFS(from.path("reports"))))
	}
	recorded := filepath.Join(w, "calls")
	gh = "#!/bin/sh\necho \"$2\" >>" + recorded + "\n" + gh
	require.NoError(t, os.WriteFile(filepath.Join(bin, "gh"), []byte(gh), 0o755))
	require.NoError(t, os.Symlink(needPython(t, ""), filepath.Join(bin, "python3")))
	out, code = githubScript(t, w, "release.sh", nil, "PATH="+bin+":/usr/bin:/bin",
		"GITHUB_SHA="+commit, "GITHUB_REF_NAME="+tag)
	data, err := os.ReadFile(recorded)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return out, code, string(data)
}

func TestReleaseOnGitHubIsMadeOnce(t *testing.T) {
	out, code, calls := release(t, "v1.2.3", "exit 0\n", "linux", "windows")
	require.Zero(t, code, out)
	require.Equal(t, 2, strings.Count(out, "v1.2.3: project-1.2.3+rocm-py3-none-any.whl\n"), "of both systems")
	require.Equal(t, "view\nupload\n", calls, "the job is run again")

	out, code, calls = release(t, "v1.2.4", "exit 0\n", "windows")
	require.Equal(t, 1, code)
	require.Contains(t, out, "FAILED: v1.2.4 would release version 1.2.3+rocm")
	require.Contains(t, out, notReleased+"The tag and the wheel do not match")
	require.Empty(t, calls)

	out, code, calls = release(t, "v1.2.3", "exit 1\n", "linux")
	require.Equal(t, 1, code)
	require.Contains(t, out, notReleased+"Give the calling job the permission contents: write.")
	require.Equal(t, "view\ncreate\n", calls)
}
