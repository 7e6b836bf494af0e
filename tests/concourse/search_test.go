//go:build e2e

package concourse

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// TestSearchForASlowCommit is docs/how-to/find-the-slow-commit.md with a real Concourse: its
// job finds the commit that made an example slower, in a history of twelve, and its command
// for ab shows the difference between two. The stand-ins are those of TestCIForROCm; the
// unit may fix clocks, and can't: the fixture's driver has no file for that.
func TestSearchForASlowCommit(t *testing.T) {
	c := newChain(t, nil)
	c.deploy(chainTarball(t), map[string]any{"gpu-fixed-clocks": true}, "mi210x4")
	var commits []string
	for n := range 12 {
		seconds := 1.0
		if n >= 7 {
			seconds = 1.3
		}
		c.measures(seconds)
		commits = append(commits, c.project.push(fmt.Sprint("change ", n)))
	}
	good, slow := commits[0], commits[7]
	kept := c.workerOf["gfx90a"].Root
	require.NoError(t, kept.MkdirAll("/srv/profiles_rw", 0o755))
	require.NoError(t, os.Chmod(kept.Path("/srv/profiles_rw"), 0o777)) // tasks are no user of the unit
	page, err := os.ReadFile("../../docs/how-to/find-the-slow-commit.md")
	require.NoError(t, err)
	c.setPipelineText("search", searchPipeline(t, string(page), good))
	for _, r := range []string{"source", "ci", "image"} {
		c.fly.must("check-resource", "-r", "search/"+r)
	}
	c.story.last = time.Now()
	c.fly.must("trigger-job", "-j", "search/bisect")
	said := c.endsOf("search", "succeeded", "bisect")
	require.Contains(t, said, "gpu-baseline: FOUND**")
	require.Contains(t, said, "- `"+slow[:12]+"` `change 7`\n- duration grew by 30 %; the limit is 10 %")
	require.Contains(t, said, "the runs are as the GPU's own clocks make them: the clocks of its GPUs are not fixed: ")
	measured, err := kept.Glob("/srv/profiles_rw/profile-*-*.json")
	require.NoError(t, err)
	require.Less(t, len(measured), 10, "of 12 commits")
	require.Contains(t, said, fmt.Sprintf("0 profiles were there, %d runs were made", len(measured)))
	c.fly.must("trigger-job", "-j", "search/bisect")
	require.Contains(t, c.endsOf("search", "succeeded", "bisect"), fmt.Sprintf("%d profiles were there, 0 runs were made", len(measured)))

	report, said, err := c.compares(slow+"^", slow)
	require.Error(t, err, "fly exits as the build does: %s", said)
	require.Contains(t, report, "gpu-baseline: FAILED**: 1 worse; ")
	report, said, err = c.compares(slow, commits[11])
	require.NoError(t, err, said)
	require.Contains(t, report, "1 not worse; ")
}

// searchPipeline is the pipeline rocm-build with the page's job alone, as a person who copies
// it sets good, and asks for fixed clocks.
func searchPipeline(t *testing.T, page, good string) string {
	t.Helper()
	_, job, found := strings.Cut(page, "\n```yaml\n")
	job, _, ends := strings.Cut(job, "\n```\n")
	require.True(t, found && ends)
	require.Contains(t, job, "old: v1.2.0\n")
	job = strings.Replace(job, "old: v1.2.0\n", "old: "+good+"\n", 1)
	job = strings.Replace(job, "        params:\n", "        params:\n          GPU_FIXED_CLOCKS: \"1\"\n", 1)
	build, err := os.ReadFile("../../pipelines/rocm-build.yml")
	require.NoError(t, err)
	var whole struct {
		Resources []map[string]any
	}
	require.NoError(t, yaml.Unmarshal(build, &whole))
	var used []map[string]any // an unused resource is an error
	for _, r := range whole.Resources {
		if strings.Contains(job, fmt.Sprintf("get: %s,", r["name"])) {
			used = append(used, r)
		}
	}
	resources, err := yaml.Marshal(map[string]any{"resources": used})
	require.NoError(t, err)
	return string(resources) + job + told
}

// told is a step after the page's, at which the report is in the build for sure.
const told = `
      - task: told
        image: image
        tags: [gpu, compute-runtime=rocm]
        config:
          platform: linux
          inputs: [{name: report}]
          run:
            path: sh
            args:
              - -c
              - |
                ` + lingers + `
                cat report/report.md
`

// compares runs ab as the page has it, with the inputs of the job.
func (c *chain) compares(a, b string) (report, said string, err error) {
	c.t.Helper()
	into := c.t.TempDir()
	task, err := filepath.Abs("../../pipelines/tasks/ab.yml")
	require.NoError(c.t, err)
	defer c.since(time.Now(), "ab")
	args := append([]string{"execute", "--inputs-from", "search/bisect", "--tag", "gpu", "--tag", "compute-runtime=rocm", "--tag", "gfx=gfx90a", "--config", task,
		"--var", "old=" + a, "--var", "new=" + b, "--output", "report=" + into}, c.vars("search")...)
	said, err = c.fly.run(args...)
	text, unread := os.ReadFile(filepath.Join(into, "report.md"))
	require.NoError(c.t, unread, said)
	return string(text), said, err
}
