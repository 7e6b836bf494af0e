package pipelines

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/tests/fly"
)

// validate has fly look at a pipeline as strictly as it can.
func validate(program, path string) (string, error) {
	out, err := exec.Command(program, "validate-pipeline", "--strict", "--config", path,
		"--load-vars-from", filepath.Join(dir, "vars", "rocm-build.yml"), "--load-vars-from", filepath.Join(dir, "vars", "rocm-pr.yml"),
		"--load-vars-from", filepath.Join(dir, "vars", "rocm-windows.yml"),
		"--var", "repository=busybox", "--var", "image-tag=latest", "--var", "folder=models", "--var", "old=v1", "--var", "new=HEAD", "--yaml-var", "tags=[gpu]").CombinedOutput()
	return string(out), err
}

func TestFlyTakesThePipelines(t *testing.T) {
	program := fly.Program(t)
	for _, path := range files(t, "*.yml") {
		out, err := validate(program, path)
		require.NoError(t, err, "%s: %s", path, out)
	}
}

// A task in its own file is read when its build runs; inside a pipeline fly reads it at
// once.
func TestFlyTakesTheTasks(t *testing.T) {
	program := fly.Program(t)
	inside := func(config any) string {
		data, err := yaml.Marshal(map[string]any{"jobs": []any{map[string]any{"name": "j", "plan": []any{map[string]any{"task": "t", "config": config}}}}})
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "p.yml")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	for _, path := range append(files(t, "tasks/*.yml"), files(t, "tasks/windows/*.yml")...) {
		var own map[string]any
		read(t, path, &own)
		out, err := validate(program, inside(own))
		require.NoError(t, err, "%s: %s", path, out)
		// It would report.
		own["inputs"] = "source"
		_, err = validate(program, inside(own))
		require.Error(t, err, path)
	}
}
