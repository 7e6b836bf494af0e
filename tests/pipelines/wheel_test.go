//go:build e2e

package pipelines

import (
	"archive/tar"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// built is a step after the task wheel, with a project that is one of the test's.
func built(t *testing.T) (s *step, commit string) {
	t.Helper()
	needPython(t, "pip")
	s = newStep(t)
	made := filepath.Join(shared, "wheel")
	if _, err := os.Stat(made); err != nil {
		s.checkout(t, "source", "testdata/project")
		s.passes(t, "wheel")
		require.NoError(t, os.MkdirAll(made, 0o755))
		for _, name := range []string{"source", "built"} {
			require.NoError(t, os.Rename(s.path(name), filepath.Join(made, name)))
		}
	}
	require.NoError(t, os.CopyFS(s.path(), os.DirFS(made)))
	return s, s.git(t, "source", "rev-parse", "HEAD")
}

func TestWheelIsBuiltForTheArchitecturesAndKnowsItsCommit(t *testing.T) {
	needPython(t, "pip")
	s := newStep(t)
	commit := s.checkout(t, "source", "testdata/project")
	out := s.passes(t, "wheel")
	require.Contains(t, out, "building "+commit+" for gfx90a gfx942\n")
	require.Contains(t, out, "project/_C.so: gfx90a gfx942\n")
	archive := s.one(t, "built/*")
	require.Regexp(t, `^wheel-[0-9]{14}-`+commit[:12]+`\.tar$`, filepath.Base(archive))
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	names := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		names[h.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
	require.Len(t, names, 2)
	require.Contains(t, names, "project-1.2.3+rocm-py3-none-any.whl")
	var build map[string]any
	require.NoError(t, json.Unmarshal(names["build.json"], &build))
	require.Equal(t, commit, build["commit"])
	require.Equal(t, []any{"gfx90a", "gfx942"}, build["architectures"])
}

func TestWheelFails(t *testing.T) {
	needPython(t, "pip")
	for name, row := range map[string]struct{ archs, env, want string }{
		"no architectures":            {archs: " ", want: "the list of architectures is empty"},
		"the build reads no variable": {env: "FAKE_ARCHS=gfx1100", want: "project/_C.so has no code for gfx90a,gfx942"},
		"code for one more":           {env: "FAKE_ARCHS=gfx90a;gfx942;gfx1100", want: "project/_C.so has code for gfx1100 too"},
		"one library lacks one":       {env: "FAKE_SECOND=gfx942", want: "project/_D.so has no code for gfx90a"},
		"no GPU code":                 {env: "FAKE_FORM=none", want: "has no GPU code"},
		"compressed code":             {env: "FAKE_FORM=compressed", want: "its GPU code is compressed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStep(t)
			s.checkout(t, "source", "testdata/project")
			s.env = append(s.env, row.env)
			if row.archs != "" {
				s.vars["architectures"] = row.archs
			}
			s.fails(t, "wheel", row.want)
		})
	}
	t.Run("what it needs does not install", func(t *testing.T) {
		s := newStep(t)
		s.checkout(t, "source", "testdata/project")
		s.vars["install-command"] = "exit 3; true"
		s.fails(t, "wheel", "INSTALL_COMMAND exits with 3")
	})
	t.Run("it does not build", func(t *testing.T) {
		s := newStep(t)
		s.checkout(t, "source", "testdata/project")
		require.NoError(t, os.Remove(s.path("source/project/__init__.py")))
		s.fails(t, "wheel", "returned non-zero exit status")
	})
	t.Run("no checkout", func(t *testing.T) {
		s := newStep(t)
		require.NoError(t, os.Mkdir(s.path("source"), 0o755))
		s.fails(t, "wheel", "source/.git/HEAD")
	})
}

// Settings of the card in the compiler's names are no other architecture.
func TestArchitecturesOfAWheelHaveNoSettings(t *testing.T) {
	needPython(t, "pip")
	s := newStep(t)
	s.checkout(t, "source", "testdata/project")
	s.env = []string{"FAKE_ARCHS=gfx90a:sramecc+:xnack-;gfx90a:xnack+;gfx942"}
	require.Contains(t, s.passes(t, "wheel"), "project/_C.so: gfx90a gfx942\n")
}

func TestLinuxVerifyInstallsAndImports(t *testing.T) {
	needPython(t, "pip")
	s, commit := built(t)
	require.NoError(t, os.Rename(s.path("built"), s.path("wheels")))
	s.vars["architectures"] = "gfx90a:xnack-; gfx942"
	out := s.passes(t, "linux-verify")
	require.Contains(t, out, "project-1.2.3+rocm-py3-none-any.whl of "+commit)
	require.Contains(t, out, "project installs and imports\n")

	for name, change := range map[string]func(s *step){
		"the wheel was built for gfx90a,gfx942, want gfx90a": func(s *step) { s.vars["architectures"] = "gfx90a" },
		"ModuleNotFoundError: No module named 'another'":     func(s *step) { s.vars["module"] = "another" },
		"MODULE is 'os; print(1)', which is no name":         func(s *step) { s.vars["module"] = "os; print(1)" },
		"json comes from ":        func(s *step) { s.vars["module"] = "json" },
		"no such option: --wrong": func(s *step) { s.vars["verify-pip-args"] = "--wrong" },
		"project-1.2.3+rocm-py3-none-any.whl is not the wheel": func(s *step) { damage(t, s.one(t, "wheels/*.tar")) },
	} {
		t.Run(name, func(t *testing.T) {
			other := newStep(t)
			require.NoError(t, os.CopyFS(other.path("wheels"), os.DirFS(s.path("wheels"))))
			change(other)
			other.fails(t, "linux-verify", name)
		})
	}
	t.Run("no wheel", func(t *testing.T) {
		other := newStep(t)
		require.NoError(t, os.Mkdir(other.path("wheels"), 0o755))
		other.fails(t, "linux-verify", "wheels has 0 archives of wheels, want 1")
	})
}

// damage changes a byte of the wheel in an archive.
func damage(t *testing.T, archive string) {
	t.Helper()
	data, err := os.ReadFile(archive)
	require.NoError(t, err)
	at := strings.Index(string(data), "NAME = ")
	require.Positive(t, at)
	data[at] = 'M'
	require.NoError(t, os.WriteFile(archive, data, 0o644))
}

// Python that breaks when it is imported, not when it is built.
func TestLinuxVerifyImportsForReal(t *testing.T) {
	needPython(t, "pip")
	s := newStep(t)
	s.checkout(t, "source", "testdata/project")
	require.NoError(t, os.WriteFile(s.path("source/project/__init__.py"), []byte("raise OSError('libamdhip64.so.6: cannot open shared object file')\n"), 0o644))
	s.passes(t, "wheel")
	require.NoError(t, os.Rename(s.path("built"), s.path("wheels")))
	s.fails(t, "linux-verify", "libamdhip64.so.6: cannot open shared object file")
}
