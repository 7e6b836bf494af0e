package worker

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// tags returns the tags of the worker: windows, the settings' tags, and those of the GPUs as
// workers on Linux have them.
func tags(s Settings, gpus []GPU) []string {
	g := beacon.GPUTags{Runtime: "rocm"}
	for _, one := range forTasks(gpus) {
		g.Count++
		g.Archs = append(g.Archs, one.Chip().GFX)
	}
	return beacon.Tags(append([]string{beacon.Windows}, s.Tags...), g)
}

// temp and cache are the folders in the work folder for files of tasks that Concourse does
// not remove.
func temp(workDir string) string  { return filepath.Join(workDir, "tmp") }
func cache(workDir string) string { return filepath.Join(workDir, "cache") }

// environment returns the environment of Concourse's worker. Its tasks inherit it. parent is
// the environment of this process, without variables that would change the worker.
func environment(p paths, s Settings, gpus []GPU, parent []string) []string {
	own := [][2]string{
		{"CONCOURSE_NAME", s.Name},
		{"CONCOURSE_WORK_DIR", s.WorkDir},
		{"CONCOURSE_TAG", strings.Join(tags(s, gpus), ",")},
		{"CONCOURSE_TEAM", s.Team},
		{"CONCOURSE_TSA_HOST", s.TSAHost},
		{"CONCOURSE_TSA_PUBLIC_KEY", p.hostKey()},
		{"CONCOURSE_TSA_WORKER_PRIVATE_KEY", p.key()},
		// Other machines reach the worker through the web's tunnel only.
		{"CONCOURSE_BIND_IP", "127.0.0.1"},
		{"CONCOURSE_BAGGAGECLAIM_BIND_IP", "127.0.0.1"},
		{"CONCOURSE_HEALTHCHECK_BIND_IP", "127.0.0.1"},
		{"TEMP", temp(s.WorkDir)},
		{"TMP", temp(s.WorkDir)},
		{"PIP_CACHE_DIR", filepath.Join(cache(s.WorkDir), "pip")},
		{"TORCH_HOME", filepath.Join(cache(s.WorkDir), "torch")},
		{"HF_HOME", filepath.Join(cache(s.WorkDir), "huggingface")},
	}
	var env []string
	for _, v := range parent {
		name, _, _ := strings.Cut(v, "=")
		name = strings.ToUpper(name)
		set := slices.ContainsFunc(own, func(o [2]string) bool { return o[0] == name })
		if !set && !strings.HasPrefix(name, "CONCOURSE_") {
			env = append(env, v)
		}
	}
	for _, o := range own {
		if o[1] != "" {
			env = append(env, fmt.Sprintf("%s=%s", o[0], o[1]))
		}
	}
	return env
}
