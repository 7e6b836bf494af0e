package pipelines

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const githubWorkflow = "../../.github/workflows/rocm.yml"

type githubJob struct {
	Needs       any
	If          string
	RunsOn      any `yaml:"runs-on"`
	Permissions map[string]string
	Env         map[string]string
	Steps       []struct {
		Name, If, Uses, Run string
		Env                 map[string]string
		With                map[string]any
	}
}

func githubJobs(t *testing.T) (inputs map[string]map[string]any, jobs map[string]githubJob) {
	t.Helper()
	var w struct {
		On struct {
			Call struct{ Inputs map[string]map[string]any } `yaml:"workflow_call"`
		}
		Jobs map[string]githubJob
	}
	data, err := os.ReadFile(githubWorkflow)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &w))
	return w.On.Call.Inputs, w.Jobs
}

// An input is a variable of the Concourse pipelines with the same name and the same default, so
// that a project can change its CI. The listed ones exist on GitHub alone.
func TestInputsOfGitHubAreTheVariables(t *testing.T) {
	var all, windows map[string]any
	read(t, filepath.Join(dir, "vars/rocm-build.yml"), &all)
	read(t, filepath.Join(dir, "vars/rocm-windows.yml"), &windows)
	for name, value := range windows {
		all[name] = value
	}
	inputs, _ := githubJobs(t)
	page := text(t, "../../docs/how-to/rocm-github.md")
	alone := []string{"python-version", "baseline", "ci-commit"}
	for name, input := range inputs {
		if slices.Contains(alone, name) {
			require.Contains(t, page, "`"+name+"`")
			require.NotContains(t, all, name)
			continue
		}
		require.Contains(t, all, name)
		of := strings.HasPrefix(name, "windows-") && name != "windows-architectures" &&
			!strings.HasSuffix(name, "-command")
		if of || name == "allowed-dlls" {
			require.Equal(t, all[name], input["default"], name)
		}
	}
	require.Equal(t, all["windows-install-command"], inputs["windows-install-command"]["default"])
	used := regexp.MustCompile(`inputs\.([a-z-]+)`)
	for _, m := range used.FindAllStringSubmatch(text(t, githubWorkflow), -1) {
		require.Contains(t, inputs, m[1])
	}
}

func TestPageShowsTheCaller(t *testing.T) {
	_, rest, ok := strings.Cut(text(t, "../../docs/how-to/rocm-github.md"), "   ```yaml\n")
	require.True(t, ok)
	block, _, _ := strings.Cut(rest, "   ```\n")
	caller := text(t, dir, "github/caller.yml")
	require.Equal(t, caller, strings.ReplaceAll("\n"+block, "\n   ", "\n")[1:])
	require.LessOrEqual(t, strings.Count(caller, "\n"), 10)
}

// What a caller gives reaches a program that reads it.
func TestInputsOfGitHubAreUsed(t *testing.T) {
	inputs, _ := githubJobs(t)
	workflow := text(t, githubWorkflow)
	for name := range inputs {
		require.Contains(t, workflow, "inputs."+name, name)
	}
}

// The jobs of both systems have the same steps, which run the same scripts with the same variables.
func TestJobsOfGitHubAreThoseOfBothSystems(t *testing.T) {
	_, jobs := githubJobs(t)
	linux, windows := jobs["linux-rocm"], jobs["windows-rocm"]
	require.Equal(t, []any{"self-hosted", "Linux", "ROCm"}, linux.RunsOn)
	require.Equal(t, []any{"self-hosted", "Windows", "ROCm"}, windows.RunsOn)
	require.Len(t, windows.Steps, len(linux.Steps))
	same := strings.NewReplacer("windows-", "", "Windows", "Linux", `"%PYTHON%"`, `"$PYTHON"`, `\`, "/", "move ", "mv ")
	for i, l := range linux.Steps {
		w := windows.Steps[i]
		require.Equal(t, l.Uses, w.Uses, l.Name)
		require.Equal(t, l.If, w.If, l.Name)
		require.Equal(t, l.Run, same.Replace(w.Run), l.Name)
		for name, value := range w.Env {
			if name != "ALLOWED_DLLS" {
				require.Equal(t, l.Env[name], same.Replace(value), l.Name)
			}
		}
		if strings.HasPrefix(l.Uses, "actions/upload-artifact@") {
			l.With["name"] = strings.Replace(l.With["name"].(string), "linux", "windows", 1)
		}
		require.Equal(t, l.With, w.With, l.Name)
	}
	var names []string
	for _, s := range linux.Steps[2:] {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"Check the runner", "Prepare ROCm paths", "Set up Python", "Install project dependencies",
		"Validate HIP availability", "Run unit tests", "Profile ROCm examples", "Report the profile",
		"Build ROCm wheel", "Upload artifacts", "Hand over the wheel", "Linux verification"}, names)
}

// Variables of a task of Concourse are the variables of its step on GitHub.
func TestStepsOfGitHubHaveTheVariablesOfTasks(t *testing.T) {
	_, jobs := githubJobs(t)
	tasks := map[string]string{"hip_check.py": "hip-check", "unit.py": "unit", "run_profile.py": "profile",
		"build_wheel.py": "wheel", "gpu_verify.py": "gpu-verify", "verify_wheel.py": "linux-verify",
		"check_dlls.py": "check-dlls"}
	everywhere := []string{"MODULE", "ARCHES_VARIABLE", "INSTALL_COMMAND", "ROCM_VENV"}
	// Of Concourse's workers alone.
	without := []string{"AMD_VISIBLE_DEVICES", "GPU_FIXED_CLOCKS", "JUNIT", "GPU_BASELINE"}
	found := map[string]bool{}
	for job, j := range jobs {
		for _, s := range j.Steps {
			script := regexp.MustCompile(`step\.py (\w+\.py)$`).FindStringSubmatch(s.Run)
			if script == nil || tasks[script[1]] == "" {
				continue
			}
			found[script[1]] = true
			var own task
			name := tasks[script[1]]
			if job == "windows-rocm" {
				name = "windows/" + name
			}
			read(t, filepath.Join(dir, "tasks", name+".yml"), &own)
			for param := range own.Params {
				if slices.Contains(without, param) || slices.Contains(everywhere, param) {
					continue
				}
				_, ofStep := s.Env[param]
				_, ofJob := j.Env[param]
				require.True(t, ofStep || ofJob, "%s: %s: %s", job, s.Name, param)
			}
		}
	}
	require.Len(t, found, len(tasks))
}

func TestOnlyTheReleaseOnGitHubMayWrite(t *testing.T) {
	_, jobs := githubJobs(t)
	for name, j := range jobs {
		if name != "release" {
			require.Empty(t, j.Permissions, name)
			continue
		}
		require.Equal(t, map[string]string{"contents": "write"}, j.Permissions)
		require.Contains(t, j.If, "startsWith(github.ref, 'refs/tags/v')")
		for _, s := range j.Steps {
			require.NotContains(t, s.With, "source", "the project's code may not run with this right")
		}
	}
}
