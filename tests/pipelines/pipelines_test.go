// Package pipelines holds the pipelines and tasks that users run to their
// word: tags on every step that needs them, scripts that are one with the task's
// own file, and failures that fail. The tasks of rocm-build.yml run here with
// stand-ins for torch and a project; PyTorch itself and a GPU have no part in it. Where
// a release of Concourse or fly is at hand, fly validates the pipelines.
package pipelines

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const dir = "../../pipelines"

type task struct {
	Platform      string
	ImageResource map[string]any `yaml:"image_resource"`
	Params        map[string]string
	Inputs        []map[string]string
	Outputs       []map[string]string
	Run           struct {
		Path string
		Args []string
	}
}

type pipeline struct {
	Resources []struct {
		Name string
		Tags any
	}
	Jobs []struct {
		Name string
		Plan []struct {
			Get, Task, Image string
			Tags             any
			Config           *task
		}
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	require.NoError(t, d.Decode(into), path)
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

// ofOneJob are the pipelines with one job and a task that people also run alone;
// rocmbuild_test.go, rocmpr_test.go, models_test.go and tests/concourse have the others.
func ofOneJob(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(files(t, "*.yml"), func(path string) bool {
		name := filepath.Base(path)
		return strings.HasPrefix(name, "rocm-") || name == "warm-images.yml" || name == "fill-models.yml"
	})
}

// A step without the worker's tags finds no worker that has any, and a check or
// a get of its image does not either.
func TestEveryStepHasTheWorkersTags(t *testing.T) {
	for _, path := range ofOneJob(t) {
		var p pipeline
		read(t, path, &p)
		tags := p.Resources[0].Tags
		require.NotEmpty(t, tags, path)
		for _, r := range p.Resources {
			require.Equal(t, tags, r.Tags, "%s: resource %s", path, r.Name)
		}
		for _, j := range p.Jobs {
			for _, s := range j.Plan {
				require.Equal(t, tags, s.Tags, "%s: %s%s", path, s.Get, s.Task)
			}
		}
	}
}

func TestPipelinesRunTheTasksThatPeopleRun(t *testing.T) {
	for _, path := range ofOneJob(t) {
		var p pipeline
		read(t, path, &p)
		for _, j := range p.Jobs {
			for _, s := range j.Plan {
				if s.Task == "" {
					continue
				}
				var own task
				read(t, filepath.Join(dir, "tasks", s.Task+".yml"), &own)
				require.NotEmpty(t, own.ImageResource, s.Task)
				own.ImageResource = nil
				require.Equal(t, own, *s.Config, "%s: task %s", path, s.Task)
				require.Equal(t, "image", s.Image)
			}
		}
	}
}

// run runs a task's script on this machine, which has no GPU.
func run(t *testing.T, name string, edit func(string) string, env ...string) (out string, code int) {
	t.Helper()
	var own task
	read(t, filepath.Join(dir, "tasks", name+".yml"), &own)
	args := own.Run.Args
	args[len(args)-1] = edit(args[len(args)-1])
	path, err := exec.LookPath(own.Run.Path)
	if err != nil {
		t.Skipf("no %s here", own.Run.Path)
	}
	c := exec.Command(path, args...)
	c.Dir = t.TempDir()
	c.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, env...)
	text, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return string(text), c.ProcessState.ExitCode()
}

func asIs(s string) string { return s }

// The tasks of others ended every check with an `or true`.
func TestTasksFailWithoutAGPU(t *testing.T) {
	if _, err := os.Stat("/dev/kfd"); !errors.Is(err, os.ErrNotExist) {
		t.Skip("this machine has a GPU")
	}
	for name, want := range map[string]string{
		"verify-gpu-amd": "FAILED: no /dev/kfd: ", "verify-gpu-cuda": "FAILED: no /dev/nvidiactl: ", "verify-rocm-tools": "FAILED: the image has no ",
	} {
		out, code := run(t, name, asIs, "EXPECTED_GPUS=", "HIP_ARCHES=")
		require.NotZero(t, code, name)
		require.Contains(t, out, want)
	}
	_, code := run(t, "benchmark-matmul", asIs, "SIZE=8", "MIN_SPEEDUP=1")
	require.NotZero(t, code)
}

func TestMountsTaskSeparatesReadingFromWriting(t *testing.T) {
	srv := t.TempDir()
	for _, name := range []string{"models", "cache_rw"} {
		require.NoError(t, os.Mkdir(filepath.Join(srv, name), 0o755))
	}
	here := func(s string) string { return strings.ReplaceAll(s, "/srv/", srv+"/") }
	out, code := run(t, "mounts", here, "FOLDER=cache_rw")
	require.Zero(t, code, out)
	out, code = run(t, "mounts", here, "FOLDER=models")
	require.NotZero(t, code, "it can be written")
	require.Contains(t, out, "/models can be written")
	out, code = run(t, "mounts", here, "FOLDER=nothing")
	require.NotZero(t, code)
	require.Contains(t, out, "does srv-folders name it?")
	left, err := filepath.Glob(filepath.Join(srv, "*", ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestScriptsAreValidShell(t *testing.T) {
	for _, path := range files(t, "tasks/*.yml") {
		var own task
		read(t, path, &own)
		if own.Run.Path != "sh" || own.Run.Args[0] != "-ec" {
			continue
		}
		c := exec.Command("sh", "-n")
		c.Stdin = strings.NewReader(own.Run.Args[len(own.Run.Args)-1])
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", path, out)
	}
}
