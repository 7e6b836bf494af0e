package pipelines

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// doing is a step of rocm-build.yml or rocm-pr.yml.
type doing struct {
	Get, Put, Task, Resource, File, Image string
	Trigger, Privileged                   bool
	Version                               string
	NoGet                                 bool     `yaml:"no_get"`
	Inputs                                []string // of a put
	Passed                                []string
	Tags                                  any
	Vars                                  map[string]string
	Params                                map[string]any
	InputMapping                          map[string]string `yaml:"input_mapping"`
	InParallel                            []doing           `yaml:"in_parallel"`
	Across                                []struct {
		Var    string
		Values any
	}
	Do        []doing
	Try       *doing
	OnSuccess *doing `yaml:"on_success"`
	OnFailure *doing `yaml:"on_failure"`
	OnError   *doing `yaml:"on_error"`
	OnAbort   *doing `yaml:"on_abort"`
}

type job struct {
	Name  string
	Plan  []doing
	doing `yaml:",inline"` // its hooks
}

type resource struct {
	Name, Type string
	Tags       any
	Source     map[string]any
}

type chain struct {
	Types     []resource `yaml:"resource_types"`
	Resources []resource
	Jobs      []job
}

func rocmBuild(t *testing.T) chain {
	t.Helper()
	return chainOf(t, "rocm-build.yml")
}

func chainOf(t *testing.T, name string) (p chain) {
	t.Helper()
	read(t, filepath.Join(dir, name), &p)
	for i, j := range p.Jobs {
		p.Jobs[i].Plan = flat(j.Plan)
	}
	return p
}

// flat are the steps of a plan without those that only hold others.
func flat(plan []doing) (all []doing) {
	for _, d := range plan {
		if below := append(slices.Clone(d.InParallel), d.Do...); len(below) > 0 {
			all = append(all, flat(below)...)
			continue
		}
		all = append(all, d)
	}
	return all
}

const withBuildTags = "((build-tags))"

func onGPU(tags any) bool { _, ok := tags.([]any); return ok }

// D43: five tags, of which no worker had some.
func TestD43ROCmBuildRunsOnTagsThatWorkersHave(t *testing.T) {
	p := rocmBuild(t)
	worker := beacon.Tags(nil, beacon.GPUTags{Runtime: "rocm", Count: 1, Archs: []string{"gfx90a"}})
	for _, r := range p.Resources {
		require.Equal(t, withBuildTags, r.Tags, r.Name)
	}
	needGPU := map[string]bool{"hip-check": true, "unit": true, "profile": true, "compare-profile": true, "gpu-verify": true}
	for _, j := range p.Jobs {
		for _, d := range j.Plan {
			if d.Put != "" || !needGPU[d.Task] && d.Task != "" {
				require.Equal(t, withBuildTags, d.Tags, "%s: %s", j.Name, d.Put+d.Task)
				continue
			}
			if d.Task != "" {
				require.True(t, onGPU(d.Tags), "%s: %s", j.Name, d.Task)
			}
			if !onGPU(d.Tags) {
				require.Equal(t, withBuildTags, d.Tags, "%s: %s", j.Name, d.Get)
				continue
			}
			for _, tag := range d.Tags.([]any) {
				require.Contains(t, worker, strings.NewReplacer("((gfx))", "gfx90a", "((.:gfx))", "gfx90a").Replace(tag.(string)))
			}
		}
	}
}

// chain follows passed from a job back to the first.
func TestROCmBuildIsOneChain(t *testing.T) {
	p := rocmBuild(t)
	passed := map[string][]string{} // of what triggers the job
	for _, j := range p.Jobs {
		for _, d := range j.Plan {
			if d.Get == "source" || d.Get == "wheels" {
				passed[j.Name] = append(passed[j.Name], d.Passed...)
				with := j.Name == "gpu-verify" && d.Get == "source" // what the wheel was made of
				require.Equal(t, j.Name != "release" && j.Name != "publish" && !with, d.Trigger, j.Name)
			}
			if d.Get == "ci" && j.Name != "hip-check" {
				require.NotEmpty(t, d.Passed, "%s: other tasks than those that passed", j.Name)
			}
		}
	}
	require.Equal(t, map[string][]string{
		"hip-check": nil, "unit": {"hip-check"}, "profile": {"unit"}, "wheel": {"profile"},
		"gpu-verify": {"wheel", "wheel"}, "linux-verify": {"wheel"}, "release": {"wheel", "gpu-verify", "linux-verify"},
		"publish": {"release"},
	}, passed)
}

func TestROCmBuildReleasesTagsToGitHub(t *testing.T) {
	p := rocmBuild(t)
	byName := map[string]resource{}
	for _, r := range p.Resources {
		byName[r.Name] = r
	}
	require.Equal(t, "v*", byName["tag"].Source["tag_filter"])
	require.Equal(t, byName["source"].Source["uri"], byName["tag"].Source["uri"])
	i := slices.IndexFunc(p.Jobs, func(j job) bool { return j.Name == "release" })
	last := p.Jobs[i].Plan[len(p.Jobs[i].Plan)-1]
	require.Equal(t, "github-release", byName[last.Put].Type)
	require.True(t, slices.ContainsFunc(p.Jobs[i].Plan, func(d doing) bool { return d.Get == "tag" && d.Trigger }))
	for _, name := range []string{"profiles", "baseline", "wheels", "reports"} {
		require.Equal(t, "s3", byName[name].Type)
		require.True(t, slices.ContainsFunc(p.Jobs, func(j job) bool {
			return slices.ContainsFunc(j.Plan, func(d doing) bool { return d.Put == name })
		}), name)
	}
	// What is stored under a name that the resource does not find is never got.
	for name, file := range map[string]string{
		"profiles": "project/profiles/gfx90a/profile-20261121163000-0123456789ab.json",
		"baseline": "project/baselines/gfx90a/baseline-20261121163000.json",
		"wheels":   "project/wheels/wheel-20261121163000-0123456789ab.tar",
		"reports":  "project/reports/gfx90a/report-20261121163000-0123456789ab.tar",
	} {
		pattern := strings.NewReplacer("((s3-prefix))", "project", "((gfx))", "gfx90a").Replace(byName[name].Source["regexp"].(string))
		require.Equal(t, "20261121163000", regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(file)[1])
	}
	first := strings.NewReplacer("((s3-prefix))", "project", "((gfx))", "gfx90a").Replace(byName["baseline"].Source["initial_path"].(string))
	require.Equal(t, "project/baselines/gfx90a/baseline-0.json", first)
}

// A task in a file is looked at when its build runs: too late for a missing variable or an
// input that no one makes.
func TestTasksGetWhatTheyNeed(t *testing.T) {
	for _, j := range slices.Concat(rocmBuild(t).Jobs, rocmPR(t).Jobs, chainOf(t, "rocm-windows.yml").Jobs) {
		have := map[string]bool{}
		tasks := 0
		for _, d := range j.Plan {
			switch {
			case d.Get != "":
				have[d.Get] = true
			case d.Put == "status":
			case d.Put != "":
				for _, file := range strings.Fields(flatten(d.Params)) {
					require.True(t, have[strings.Split(file, "/")[0]], "%s: put %s of %s", j.Name, d.Put, file)
				}
			default:
				tasks++
				name, ok := strings.CutPrefix(d.File, "ci/pipelines/")
				require.True(t, ok, d.File)
				path := filepath.Join(dir, name)
				var own task
				read(t, path, &own)
				for _, in := range own.Inputs {
					from := in["name"]
					if mapped, ok := d.InputMapping[from]; ok {
						from = mapped
					}
					require.True(t, have[from] || in["optional"] != "", "%s: task %s needs %s", j.Name, d.Task, from)
				}
				for _, out := range own.Outputs {
					have[out["name"]] = true
				}
				require.True(t, have[d.Image] || d.Image == "", "%s: image %s", j.Name, d.Image)
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				for _, v := range variable.FindAllSubmatch(data, -1) {
					require.Contains(t, d.Vars, string(v[1]), "%s: task %s", j.Name, d.Task)
				}
				for param := range d.Params {
					require.True(t, param == "GPU_COUNT" || own.Params[param] == "", "%s: %s is the task's own", j.Name, param)
				}
				script := own.Run.Args[0]
				require.FileExists(t, filepath.Join("../..", strings.TrimPrefix(script, "ci/")))
				for _, prepared := range own.Run.Args[1:] {
					require.FileExists(t, filepath.Join(dir, "tasks/rocm", prepared))
				}
			}
		}
		require.Positive(t, tasks, j.Name)
	}
}

// flatten is the paths of a put's params.
func flatten(params map[string]any) string {
	var all []string
	for _, v := range params {
		switch v := v.(type) {
		case string:
			all = append(all, v)
		case []any:
			for _, e := range v {
				all = append(all, e.(string))
			}
		}
	}
	return strings.Join(all, " ")
}

// What needs no GPU takes none, so no lease either.
func TestOnlyTasksThatComputeTakeGPUs(t *testing.T) {
	for name, want := range map[string]string{"hip-check": "", "unit": "", "profile": "", "compare-profile": "none", "wheel": "none", "linux-verify": "none", "release": "none", "publish": "none", "check-dlls": "none", "gpu-verify": "", "bisect": "", "ab": ""} {
		var own task
		read(t, filepath.Join(dir, "tasks", name+".yml"), &own)
		require.Equal(t, want, own.Params["AMD_VISIBLE_DEVICES"], name)
	}
}

// One wheel for all architectures, and a GPU of each that is tested on.
func TestWheelIsTestedOnEachArchitecture(t *testing.T) {
	var p struct{ Jobs []job }
	read(t, filepath.Join(dir, "rocm-build.yml"), &p)
	across := map[string]any{}
	for _, j := range p.Jobs {
		for _, d := range j.Plan {
			for _, a := range d.Across {
				require.Equal(t, "gfx", a.Var)
				across[j.Name] = a.Values
			}
			for _, step := range flat(d.Do) {
				if step.Task != "" {
					require.Equal(t, "((.:gfx))", step.Vars["gfx"], j.Name)
				}
			}
		}
	}
	require.Equal(t, map[string]any{"hip-check": "((test-on))", "unit": "((test-on))", "gpu-verify": "((test-on))"}, across)
}

// used are the variables of a pipeline, without the ones of across.
func used(t *testing.T, name string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	for _, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, v := range variable.FindAllStringSubmatch(line, -1) {
			if !strings.HasPrefix(v[1], ".:") {
				all = append(all, v[1])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func given(t *testing.T, name string) (all []string) {
	t.Helper()
	var vars map[string]any
	read(t, filepath.Join(dir, "vars", name), &vars)
	return slices.Sorted(maps.Keys(vars))
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
}

var (
	buildSecrets = []string{"github-token", "s3-access-key", "s3-secret-key"}
	prSecrets    = []string{"github-pr-token", "s3-read-access-key", "s3-read-secret-key"}
	// prImage is what runs with the token: the operator names it.
	prImage = []string{"pr-resource-repository", "pr-resource-tag"}
)

func TestVariablesAreOneList(t *testing.T) {
	build, pr := used(t, "rocm-build.yml"), used(t, "rocm-pr.yml")
	require.Equal(t, given(t, "rocm-build.yml"), without(build, buildSecrets))
	require.Equal(t, given(t, "rocm-pr.yml"), without(without(pr, append(prImage, prSecrets...)), given(t, "rocm-build.yml")))
	windows := used(t, "rocm-windows.yml")
	require.Equal(t, given(t, "rocm-windows.yml"), without(without(windows, buildSecrets), given(t, "rocm-build.yml")))
}

func TestShellCheckFindsNothing(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("needs shellcheck: sudo apt-get install -y shellcheck")
	}
	out, err := exec.Command("shellcheck", files(t, "tasks/*/*.sh")...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// Every text that the page explains is one that a script prints.
func TestPageQuotesWhatTheTasksReport(t *testing.T) {
	var said strings.Builder
	for _, path := range files(t, "tasks/rocm/*") {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		said.Write(data)
	}
	// A text that goes on in the next line of a script, and a shell's variable.
	source := regexp.MustCompile(`"\n\s+"`).ReplaceAllString(said.String(), "")
	var page []byte
	for _, name := range []string{"rocm-ci", "rocm-windows", "find-the-slow-commit"} {
		data, err := os.ReadFile("../../docs/how-to/" + name + ".md")
		require.NoError(t, err)
		page = append(page, data...)
	}
	quoted := regexp.MustCompile("(?m)^- `FAILED: ([^`]+)`:").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(quoted), 10)
	for _, q := range quoted {
		for _, piece := range strings.Split(q[1], "...") {
			require.Contains(t, source, strings.TrimSpace(piece), q[1])
		}
	}
}

// The page's matrix is in the form in which the action prints it.
func TestPageShowsTheMatrixOfTheAction(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/actions.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "```yaml\narchitectures:")
	require.True(t, ok)
	text, _, _ := strings.Cut("architectures:"+rest, "```")
	printed, err := os.ReadFile("../../internal/charm/command/actions/testdata/coverage.golden")
	require.NoError(t, err)
	key := regexp.MustCompile(`(\w+): `)
	keys := func(text string) (all []string) {
		for _, m := range key.FindAllStringSubmatch(strings.ReplaceAll(text, ":\n", ": \n"), -1) {
			all = append(all, m[1])
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	require.Equal(t, keys(string(printed)), keys(text))
}
