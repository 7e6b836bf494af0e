//go:build terraform

package terraform

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// tofu runs OpenTofu in a folder, without a network and without the settings of whoever
// runs the tests.
func tofu(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(workdir, "tofu/tofu"), args...)
	c.Dir = dir
	c.Env = []string{"HOME=" + workdir, "TF_CLI_CONFIG_FILE=" + filepath.Join(workdir, "tofurc"), "HTTPS_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1"}
	out, err := c.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, dir string, args ...string) {
	t.Helper()
	out, err := tofu(t, dir, args...)
	require.NoError(t, err, out)
}

// module is a copy of terraform/, as OpenTofu writes into the folder that it works in.
func module(t *testing.T) string {
	t.Helper()
	suite.Need(t, skipped)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "terraform"))))
	return dir
}

func TestFilesAreFormatted(t *testing.T) {
	must(t, module(t), "fmt", "-check", "-diff", "-recursive")
}

func TestModuleAndExamplesAreValid(t *testing.T) {
	dir := module(t)
	for _, folder := range []string{".", "examples/auto", "examples/rocm"} {
		must(t, filepath.Join(dir, folder), "init", "-no-color")
		must(t, filepath.Join(dir, folder), "validate", "-no-color")
	}
}

// Applications are made in these plans, as a takeover asks a controller. What no file of
// the module names is made up by OpenTofu: an id, a revision.
func TestPlans(t *testing.T) {
	dir := module(t)
	for _, example := range examples {
		require.NoError(t, os.Remove(filepath.Join(dir, "examples", example, "import.tf")))
	}
	for _, p := range []struct{ name, folder, variables string }{
		{"auto", "examples/auto", ""},
		{"rocm", "examples/rocm", ""},
		{"all-variables", ".", `
    app_name    = "rocm-worker"
    base        = "ubuntu@22.04"
    channel     = "1/stable"
    config      = { mode = "worker", compute-runtime = "rocm" }
    constraints = "cores=8 mem=32G"
    expose      = { cidrs = "10.0.0.0/8", endpoints = "tsa,peers", spaces = "alpha" }
    resources   = { concourse-release = "3" }
    revision    = 7
    units       = 2`},
		{"machines", ".", `machines = ["0", "3"]`}, // the provider refuses units beside them
	} {
		t.Run(p.name, func(t *testing.T) {
			out := plan(t, filepath.Join(dir, p.folder), p.variables)
			require.Contains(t, out, "\nSuccess! 1 passed, 0 failed.\n", out)
			out, _, _ = strings.Cut(out, "\nChanges to Outputs:") // TestOutputsAreTheCharmsEndpoints has them
			hosttest.Golden(t, filepath.Join("testdata", p.name+".plan"), out)
		})
	}
}

func TestTerraformLeavesTheCharmAsItIs(t *testing.T) {
	out := runs(t, module(t), `
run "made" {
}

run "plan" {
  command = plan

  variables {
    base     = "ubuntu@22.04"
    channel  = "1/edge"
    revision = 7
  }
}
`)
	_, out, _ = strings.Cut(out, `run "plan"... pass`)
	require.Contains(t, out, "No changes.", out)
}

// plan is what OpenTofu reports of a plan with these variables.
func plan(t *testing.T, dir, variables string) string {
	t.Helper()
	return runs(t, dir, fmt.Sprintf(`
run "plan" {
  command = plan

  variables {
    %s
  }
}
`, variables))
}

// runs is what OpenTofu reports of them, after each other.
func runs(t *testing.T, dir, runs string) string {
	t.Helper()
	text := `mock_provider "juju" {}

variables {
  model_uuid = "6a1f4d0e-3f2b-4c5d-8e9f-0a1b2c3d4e5f"
}
` + runs
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.tftest.hcl"), []byte(text), 0o644))
	must(t, dir, "init", "-no-color")
	out, _ := tofu(t, dir, "test", "-verbose", "-no-color")
	return out
}

func TestWrongVariablesAreRefusedWithWhatToDo(t *testing.T) {
	dir := module(t)
	for set, want := range map[string]string{
		`config = { mode = "wbe" }`:                           "Set mode in config to auto",
		`base = "ubuntu@20.04"`:                               "set base to ubuntu@24.04, ubuntu@26.04 or ubuntu@22.04",
		`model_uuid = "ci"`:                                   "juju show-model prints it as model-uuid",
		`resources = { concourse-release = "concourse.tgz" }`: "juju attach-resource",
		`resources = { concourse = "3" }`:                     "Set resources to { concourse-release",
	} {
		t.Run(set, func(t *testing.T) {
			said := strings.Join(strings.Fields(plan(t, dir, set)), " ") // it breaks lines
			require.Contains(t, said, "0 passed, 1 failed")
			require.Contains(t, said, want)
		})
	}
}
