package pipelines

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// fly unpacks fly from a release's folder, or is that of this machine.
func fly(t *testing.T) string {
	t.Helper()
	release := os.Getenv("CONCOURSE_RELEASE")
	if release == "" {
		if path, err := exec.LookPath("fly"); err == nil {
			return path
		}
		t.Skip("needs fly: put it on PATH, or set CONCOURSE_RELEASE to the folder of a Concourse release")
	}
	f, err := os.Open(filepath.Join(release, "fly-assets", "fly-linux-amd64.tgz"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("needs fly, and CONCOURSE_RELEASE has none for this machine: %v", err)
	}
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		require.NoError(t, err, "no fly in %s", f.Name())
		if filepath.Base(h.Name) != "fly" {
			continue
		}
		path := filepath.Join(t.TempDir(), "fly")
		out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
		require.NoError(t, err)
		_, err = io.Copy(out, r)
		require.NoError(t, err)
		require.NoError(t, out.Close())
		return path
	}
}

// validate has fly look at a pipeline as strictly as it can.
func validate(program, path string) (string, error) {
	out, err := exec.Command(program, "validate-pipeline", "--strict", "--config", path,
		"--load-vars-from", filepath.Join(dir, "vars", "rocm-build.yml"),
		"--var", "repository=busybox", "--var", "image-tag=latest", "--var", "folder=models", "--yaml-var", "tags=[gpu]").CombinedOutput()
	return string(out), err
}

func TestFlyTakesThePipelines(t *testing.T) {
	program := fly(t)
	for _, path := range files(t, "*.yml") {
		out, err := validate(program, path)
		require.NoError(t, err, "%s: %s", path, out)
	}
}

// A task in a file of its own is read when its build runs; inside a pipeline fly
// reads it at once.
func TestFlyTakesTheTasks(t *testing.T) {
	program := fly(t)
	inside := func(config any) string {
		data, err := yaml.Marshal(map[string]any{"jobs": []any{map[string]any{"name": "j", "plan": []any{map[string]any{"task": "t", "config": config}}}}})
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "p.yml")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	for _, path := range files(t, "tasks/*.yml") {
		var own map[string]any
		read(t, path, &own)
		out, err := validate(program, inside(own))
		require.NoError(t, err, "%s: %s", path, out)
		// It would tell.
		own["inputs"] = "source"
		_, err = validate(program, inside(own))
		require.Error(t, err, path)
	}
}
