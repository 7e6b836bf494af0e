package pipelines

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// python is this machine's Python 3 itself, not what starts it elsewhere.
var python = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("python3")
	if err != nil {
		return "", err
	}
	out, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

func needPython(t *testing.T, modules string) string {
	t.Helper()
	path, err := python()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("needs python3: sudo apt-get install -y python3 python3-pip")
	}
	require.NoError(t, err)
	if modules != "" && exec.Command(path, "-c", "import "+modules).Run() != nil {
		t.Skipf("needs the modules %s of python3: sudo apt-get install -y python3-pip", modules)
	}
	return path
}

// shared is a folder for what takes seconds to make and several tests look at.
var shared string

func TestMain(m *testing.M) {
	var err error
	if shared, err = os.MkdirTemp("", "pipelines"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(shared); err != nil {
		panic(err)
	}
	os.Exit(code)
}

var variable = regexp.MustCompile(`\(\(([^)]+)\)\)`)

// step is a task's file run as Concourse would: in a folder with its inputs and
// outputs, with its params, their variables filled in.
type step struct {
	dir  string
	vars map[string]string
	env  []string // more of its environment, such as the step's params and what the worker sets
}

// newStep has the variables that its users are shown, and the input ci.
func newStep(t *testing.T) *step {
	t.Helper()
	s := &step{dir: t.TempDir(), vars: map[string]string{}}
	var all map[string]any
	read(t, filepath.Join(dir, "vars", "rocm-build.yml"), &all)
	for name, v := range all {
		if text, ok := v.(string); ok {
			s.vars[name] = text
		}
	}
	for _, name := range []string{"python", "verify-python"} {
		s.vars[name] = needPython(t, "")
	}
	s.vars["install-command"] = ""
	s.vars["verify-pip-args"] = "--no-index"
	require.NoError(t, os.CopyFS(s.path("ci/pipelines/tasks"), os.DirFS(dir+"/tasks")))
	return s
}

func (s *step) fill(t *testing.T, text string) string {
	t.Helper()
	return variable.ReplaceAllStringFunc(text, func(v string) string {
		name := variable.FindStringSubmatch(v)[1]
		value, ok := s.vars[name]
		require.True(t, ok, "no variable %s", name)
		return value
	})
}

func (s *step) run(t *testing.T, name string) (out string, code int) {
	t.Helper()
	var own task
	read(t, filepath.Join(dir, "tasks", name+".yml"), &own)
	for _, in := range own.Inputs {
		if in["optional"] != "" {
			continue
		}
		require.DirExists(t, filepath.Join(s.dir, in["name"]), "input")
	}
	for _, out := range own.Outputs {
		require.NoError(t, os.RemoveAll(filepath.Join(s.dir, out["name"])))
		require.NoError(t, os.Mkdir(filepath.Join(s.dir, out["name"]), 0o755))
	}
	args := make([]string, len(own.Run.Args))
	for i, a := range own.Run.Args {
		args[i] = s.fill(t, a)
	}
	c := exec.Command(s.fill(t, own.Run.Path), args...)
	c.Dir = s.dir
	c.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + s.dir, "PYTHONDONTWRITEBYTECODE=1"}
	for k, v := range own.Params {
		c.Env = append(c.Env, k+"="+s.fill(t, v))
	}
	c.Env = append(c.Env, s.env...)
	text, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return string(text), c.ProcessState.ExitCode()
}

// fails wants the task to end with the reason.
func (s *step) fails(t *testing.T, name, want string) {
	t.Helper()
	out, code := s.run(t, name)
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "FAILED: ")
	require.Contains(t, out, want)
}

func (s *step) passes(t *testing.T, name string) string {
	t.Helper()
	out, code := s.run(t, name)
	require.Zero(t, code, out)
	return out
}

func (s *step) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// one is the one file of a folder.
func (s *step) one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(s.path(pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, pattern)
	return found[0]
}

// checkout makes a folder a checkout as the git resource leaves it.
func (s *step) checkout(t *testing.T, name string, files ...string) (commit string) {
	t.Helper()
	if len(files) > 0 {
		require.NoError(t, os.CopyFS(s.path(name), os.DirFS(files[0])))
	} else {
		require.NoError(t, os.Mkdir(s.path(name), 0o755))
	}
	s.git(t, name, "init", "-q", "-b", "main")
	s.git(t, name, "add", ".")
	s.git(t, name, "commit", "-q", "--allow-empty", "-m", name)
	return s.git(t, name, "rev-parse", "HEAD")
}

func (s *step) git(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := exec.Command("git", append([]string{"-C", s.path(name), "-c", "user.name=t", "-c", "user.email=t@t.example"}, args...)...)
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}
