//go:build e2e

// Package release holds what `make release` makes: the same bytes from the same commit in
// another folder, each file in the checksums, and each module of each program in the list
// of what is in the charm. The clones are of this tree's commit, with their own version.
package release

import (
	"debug/buildinfo"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

func command(t *testing.T, dir, name string, args ...string) (out string, err error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	text, err := c.CombinedOutput()
	return strings.TrimSpace(string(text)), err
}

func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := command(t, dir, name, args...)
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return out
}

// clone is one of this tree, at a commit that must be released as 9.8.7.
func clone(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "concourse-ci-machine")
	must(t, root, "git", "-c", "safe.directory=*", "clone", "-q", "--no-hardlinks", root, dir)
	return dir
}

func commit(t *testing.T, dir, why string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", "-C", dir, "-c", "user.name=t", "-c", "user.email=t@t.example", "commit", "-qam", why)
	c.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestAReleaseIsTheSameBytesInAnyFolder(t *testing.T) {
	first := clone(t)
	require.Regexp(t, `^\d+\.\d+\.\d+(-dev\.\d+\+[0-9a-f]+)?$`, must(t, first, "scripts/version.sh"))
	for _, refusal := range []struct {
		name, version, want string
		do                  func()
	}{
		{"no version", "", "run: make release VERSION=", func() {}},
		{"another than the file's", "9.8.7", "run: echo 9.8.7 >VERSION", func() {}},
		{"no entry in the changelog", "9.8.7", "CHANGELOG.md has no line ## [9.8.7] - YYYY-MM-DD", func() {
			require.NoError(t, os.WriteFile(filepath.Join(first, "VERSION"), []byte("9.8.7\n"), 0o644))
		}},
		{"a tree that was changed", "9.8.7", "commit or remove: CHANGELOG.md VERSION", func() {
			log := filepath.Join(first, "CHANGELOG.md")
			text, err := os.ReadFile(log)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(log, append(text, "\n## [9.8.7] - 2026-01-02\n"...), 0o644))
		}},
	} {
		refusal.do()
		args := []string{"release"}
		if refusal.version != "" {
			args = append(args, "VERSION="+refusal.version)
		}
		out, err := command(t, first, "make", args...)
		require.Error(t, err, refusal.name)
		require.Contains(t, out, refusal.want, refusal.name)
		require.NoDirExists(t, filepath.Join(first, "dist"), refusal.name)
	}
	commit(t, first, "a release")
	require.Contains(t, must(t, first, "scripts/version.sh"), "9.8.7-dev.20260102030405+")
	must(t, first, "git", "tag", "v9.8.7")
	require.Equal(t, "9.8.7", must(t, first, "scripts/version.sh"))

	second := filepath.Join(t.TempDir(), "elsewhere", "tree")
	must(t, first, "git", "clone", "-q", "--no-hardlinks", first, second)
	sums := map[string]string{}
	for _, dir := range []string{first, second} {
		// xz takes minutes; that it gives the same bytes is in tests/packages.
		must(t, dir, "make", "release", "VERSION=9.8.7", "COMPRESSION="+suite.PackageCompression)
		must(t, filepath.Join(dir, "dist"), "sha256sum", "--check", "--strict", "SHA256SUMS")
		text, err := os.ReadFile(filepath.Join(dir, "dist", "SHA256SUMS"))
		require.NoError(t, err)
		sums[dir] = string(text)
	}
	require.Equal(t, sums[first], sums[second])
	files, err := os.ReadDir(filepath.Join(first, "dist"))
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	require.Equal(t, []string{"PROVENANCE.md", "SHA256SUMS", "concourse-ci-machine_amd64.cdx.json", "concourse-ci-machine_amd64.charm",
		"concourse-ci-machine_amd64.deb", "concourse-ci-machine_amd64.rpm",
		"concourse-ci-machine_arm64.cdx.json", "concourse-ci-machine_arm64.charm",
		"concourse-ci-machine_arm64.deb", "concourse-ci-machine_arm64.rpm", "concourse-worker-windows.exe", "gpukit_amd64.deb", "gpukit_amd64.rpm",
		"gpukit_arm64.deb", "gpukit_arm64.rpm", "packages_amd64.cdx.json", "packages_arm64.cdx.json",
		"rocm-gpu-exporter_amd64.deb", "rocm-gpu-exporter_amd64.rpm", "rocm-gpu-exporter_arm64.deb", "rocm-gpu-exporter_arm64.rpm", "windows_amd64.cdx.json"}, names)
	require.Len(t, strings.Split(strings.TrimSpace(sums[first]), "\n"), len(names)-1)
	require.Equal(t, "9.8.7", strings.Fields(must(t, first, "bin/packages/charm-bin/amd64/dispatch", "--version"))[1])
	listed(t, first)
}

// listed wants each program and each of its modules to be in the list.
func listed(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "dist/concourse-ci-machine_arm64.cdx.json"))
	require.NoError(t, err)
	var bom struct {
		BOMFormat, SpecVersion string
		Components             []struct{ Name, Version, PURL string }
	}
	require.NoError(t, json.Unmarshal(text, &bom))
	require.Equal(t, []string{"CycloneDX", "1.6"}, []string{bom.BOMFormat, bom.SpecVersion})
	has := map[string]bool{}
	for _, c := range bom.Components {
		require.NotContains(t, c.Version, "devel", "the project's own module")
		has[c.Name+"@"+c.Version] = true
	}
	programs, err := filepath.Glob(filepath.Join(dir, "bin/packages/charm-bin/arm64/*"))
	require.NoError(t, err)
	require.Greater(t, len(programs), 5)
	for _, p := range programs {
		require.True(t, has[filepath.Base(p)+"@9.8.7"], p)
		info, err := buildinfo.ReadFile(p)
		require.NoError(t, err)
		for _, m := range info.Deps {
			require.Equal(t, !strings.HasSuffix(m.Path, "/concourse-ci-machine"), has[m.Path+"@"+m.Version], "%s of %s", m.Path, p)
		}
		require.True(t, has["std@"+info.GoVersion], p)
	}
}

// The site has each page of docs/, and is not made with a link or a picture that leads nowhere.
func TestTheSiteIsMadeOfDocsWithoutDeadLinks(t *testing.T) {
	if strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ",mkdocs-material,") {
		t.Skip("this release has no package mkdocs-material")
	}
	dir := clone(t)
	must(t, dir, "make", "site")
	require.FileExists(t, filepath.Join(dir, "dist/site/how-to/share-gpus/index.html"))
	page := filepath.Join(dir, "docs/how-to/share-gpus.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	// mkdocs finds the first, and the check of the site the others.
	for _, dead := range []map[string]string{{
		"[nothing](nothing.md)":   "nothing.md",
		"![nothing](nothing.svg)": "nothing.svg",
	}, {
		`<img src="nothing.svg">`:    "share-gpus/index.html: nothing.svg: no such file",
		"[nothing](#nothing)":        "share-gpus/index.html: #nothing: no such anchor",
		"[nothing](rocm.md#nothing)": "share-gpus/index.html: ../rocm/#nothing: no such anchor",
	}} {
		added := strings.Join(slices.Collect(maps.Keys(dead)), " and ")
		require.NoError(t, os.WriteFile(page, append(text, "\nSee "+added+".\n"...), 0o644))
		out, err := command(t, dir, "make", "site")
		require.Error(t, err)
		for _, want := range dead {
			require.Contains(t, out, want)
		}
	}
}
