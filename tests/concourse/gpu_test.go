//go:build e2e

package concourse

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var imageOf = regexp.MustCompile(`(?m)^image_resource:\n(  .*\n)+`)

// shipped runs a task of this repository on the image that the release provides, as
// registries can't be reached. Tags as scripts/deploy-test.sh gives them.
func (s *story) shipped(name string, params map[string]string, vars ...string) (string, error) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	require.NoError(s.t, err)
	require.Regexp(s.t, imageOf, string(text), name)
	task := imageOf.ReplaceAllString(string(text), "image_resource: {type: mock, source: {mirror_self: true}}\n")
	task = strings.Replace(task, "    - |\n", "    - |\n      PATH=$TOOLS:$PATH\n      "+lingers+"\n", 1)
	for key, value := range params {
		if line := regexp.MustCompile(`(?m)^  ` + key + `:.*$`); line.MatchString(task) {
			task = line.ReplaceAllString(task, "  "+key+`: "`+value+`"`)
			continue
		}
		require.Contains(s.t, task, "\nparams:\n")
		task = strings.Replace(task, "\nparams:\n", "\nparams:\n  "+key+`: "`+value+"\"\n", 1)
	}
	args := []string{"execute", "--tag", "gpu", "--tag", "compute-runtime=rocm", "-c", s.fly.write(filepath.Base(name), task)}
	for _, v := range vars {
		args = append(args, "--var", v)
	}
	return s.fly.run(args...)
}

// ownTasks are those that scripts/deploy-test.sh runs. rocminfo, which no image
// here has, is a stand-in in a folder of the unit; the nodes are opened.
func (s *story) ownTasks(t *testing.T) {
	const rocminfo = "#!/bin/sh\necho 'Agent 1'\necho '  Name:                    cpu'\necho '  Name:                    gfx1100'\n"
	for _, u := range s.app.units[1:] {
		require.NoError(t, u.Root.WriteFile("/srv/models/bin/rocminfo", []byte(rocminfo), 0o755))
	}
	// Not PATH itself: Concourse gives tasks a PATH of the worker, whatever params set.
	with := map[string]string{"TOOLS": "/srv/models/bin"}
	image := []string{"repository=none", "image-tag=none"}
	out, err := s.shipped("scripts/deploy-test/hello.yml", nil)
	require.NoError(t, err, out)
	require.Contains(t, out, "a task ran on ")

	out, err = s.shipped("pipelines/tasks/verify-gpu-amd.yml", with, image...)
	require.NoError(t, err, out)
	require.Contains(t, out, "/dev/dri/renderD128 opens")
	require.Contains(t, out, "ROCm sees: gfx1100")

	with["EXPECTED_GPUS"] = "2"
	out, err = s.shipped("pipelines/tasks/verify-gpu-amd.yml", with, image...)
	require.Error(t, err, out)
	require.Contains(t, out, "FAILED: 1 GPUs, want 2")

	out, err = s.shipped("pipelines/tasks/verify-rocm-tools.yml", nil, image...)
	require.Error(t, err, out)
	require.Contains(t, out, "FAILED: the image has no rocminfo")

	out, err = s.shipped("pipelines/tasks/verify-gpu-cuda.yml", nil, image...)
	require.Error(t, err, out)
	require.Contains(t, out, "FAILED: ", "no NVIDIA GPU is here")

	for folder, said := range map[string]string{"models": "can be read and not written", "out_rw": "can be read and written"} {
		out, err := s.shipped("pipelines/tasks/mounts.yml", nil, append(image, "folder="+folder)...)
		require.NoError(t, err, out)
		require.Contains(t, out, "/srv/"+folder+" "+said)
	}
	out, err = s.shipped("pipelines/tasks/mounts.yml", nil, append(image, "folder=nowhere")...)
	require.Error(t, err, out)
	require.Contains(t, out, "FAILED: no /srv/nowhere")
}

// refusal: what the wrapper reports reaches the build's output word for word.
func (s *story) refusal(t *testing.T) {
	out, err := s.shipped("pipelines/tasks/verify-gpu-amd.yml", map[string]string{"AMD_VISIBLE_DEVICES": "7"}, "repository=none", "image-tag=none")
	require.Error(t, err, out)
	require.Contains(t, out, `OCI runtime create failed: runc-amd-wrapper: cannot give the task the GPUs of AMD_VISIBLE_DEVICES="7": `+
		`"7" is not a GPU that this machine gives; there are: 0 (GPU-`)
	require.Contains(t, out, "errored")
}

// held is a job whose task lasts until the build is ended.
const held = `
resources:
- {name: image, type: mock, tags: [gpu], check_every: never, source: {mirror_self: true, initial_version: held}}
jobs:
- name: build
  plan:
  - {get: image, tags: [gpu]}
  - {task: t, tags: [gpu], image: image, config: {platform: linux, run: {path: sh, args: [-c, "while sleep 1; do echo waiting; done"]}}}
`

// others are steps that get no GPU: a check and a get, and a task without tags,
// which is not for these workers.
func (s *story) others(t *testing.T) {
	s.fly.must("set-pipeline", "-n", "-p", "held", "-c", s.fly.write("held.yml", held))
	s.fly.must("unpause-pipeline", "-p", "held")
	s.fly.must("check-resource", "-r", "held/image")
	s.fly.must("trigger-job", "-j", "held/build")
	const list = "echo it has: $(ls /dev)"
	into := func(args ...string) (string, error) {
		return s.fly.run(append(append([]string{"intercept"}, args...), "--", "sh", "-c", list)...)
	}
	var out string
	until(t, func() bool {
		var err error
		out, err = into("-j", "held/build", "-s", "t")
		return err == nil
	}, "the task does not start")
	require.Contains(t, out, " kfd ", "the task has the GPU")
	for _, c := range [][]string{{"-c", "held/image"}, {"-j", "held/build", "-s", "image", "--step-type", "get"}} {
		out, err := into(c...)
		require.NoError(t, err, "%v: %s", c, out)
		require.Contains(t, out, "it has: ", c)
		require.Contains(t, out, " null ", c)
		require.NotContains(t, out, "kfd", c)
		require.NotContains(t, out, "dri", c)
	}
	s.fly.must("abort-build", "-j", "held/build", "-b", "1")

	begin := time.Now()
	out, err := s.fly.run("execute", "-c", s.fly.write("untagged.yml", strings.Replace(taskFile, "%s", "echo landed", 1)))
	require.Error(t, err, out)
	require.NotContains(t, out, "\nlanded")
	require.Contains(t, out, "no workers satisfying")
	s.since(begin, "a task without tags is refused: no worker is for it")
}
