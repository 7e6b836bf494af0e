//go:build e2e

package concourse

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// seenOn is what a worker's torch sees, by the architecture of its GPU.
const seenOn = `{"hip": "6.3.42134", "version": "2.6.0+rocm6.3", "built": ["gfx90a", "gfx1100"], "gpus": [{"name": "a GPU", "arch": "%s"%s}]}`

// chain is the pipeline of docs/how-to/rocm-ci.md on two workers, with GPUs that are of two
// architectures, with all that is outside.
type chain struct {
	*story
	outside  *outside
	project  *repository
	commit   string
	workerOf map[string]*unit // by architecture
	unit     string           // the project's command for tests
	opened   string           // pull requests: number and commit, a line each
	last     map[string]int   // builds of each job that were awaited
}

// TestCIForROCm is the pipelines rocm-pr and rocm-build with a real Concourse: two pull
// requests, a push, a tag, a HIP check that fails and a slower profile. Stand-ins are the
// resource types, what they reach, and PyTorch; the tasks are the pipelines' own, gpu-baseline
// is the charm's.
func TestCIForROCm(t *testing.T) {
	c := newChain(t, map[string]string{".": "../pipelines/testdata/project"})
	c.deploy(chainTarball(t), nil, "mi210x4", "amd")
	c.tell(t, []step{
		{"a pull request is tested on each architecture and told", c.pulls},
		{"a commit goes from the HIP check to a wheel that ran on a GPU of each architecture", c.pushes},
		{"a tag releases that wheel", c.tags},
		{"a GPU that does not compute stops the chain at its first job", c.hipFails},
		{"a profile that is slower stops it before the wheel, until it is accepted", c.slower},
	})
}

// tell is the story's, with those outside.
func (c *chain) tell(t *testing.T, steps []step) {
	for i, s := range steps {
		steps[i].do = func(t *testing.T) {
			c.outside.t = t
			if c.project != nil {
				c.project.t = t
			}
			s.do(t)
		}
	}
	c.story.tell(t, steps)
}

// newChain has a project of these folders, and the tasks of this repository.
func newChain(t *testing.T, project map[string]string) *chain {
	c := &chain{story: &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}, outside: newOutside(t), last: map[string]int{}, workerOf: map[string]*unit{}}
	c.project = c.outside.repository("project", project)
	c.outside.repository("ci", map[string]string{"pipelines": "../../pipelines"})
	return c
}

// deploy has a web and workers of these fixture hosts, with more options than all chains have.
func (c *chain) deploy(tgz string, more map[string]any, hardware ...string) {
	t := c.t
	set := map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip", "gpu-device-ids": "0",
		"gpu-sharing": "exclusive", "tag": "untrusted", "task-env": "FAKE_TORCH=@/srv/torch/sees.json"}
	maps.Copy(set, more)
	c.app = newApp(t, tgz, set, append([]string{"no-gpu"}, hardware...)...)
	for i, host := range hardware {
		c.workerOf[map[string]string{"mi210x4": "gfx90a", "amd": "gfx1100"}[host]] = c.app.units[i+1]
	}
	for _, u := range c.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
	}
	for arch := range c.workerOf {
		c.sees(arch, "")
	}
	counted(c.workerOf["gfx90a"], "0000:c3:00.0", 0) // the fixture's fourth is sick from the start
	c.isUp()
}

// isUp deploys the units until all workers are there.
func (s *story) isUp() {
	s.t.Helper()
	s.app.begin()
	s.app.relate(s.pg)
	s.app.relation(s.web(), "postgresql", "changed", "postgresql/0")
	s.registers()
	s.logsIn()
}

// sees sets the GPU that a worker's torch finds; more is further JSON of it.
func (c *chain) sees(arch, more string) {
	c.t.Helper()
	require.NoError(c.t, c.workerOf[arch].Root.WriteFile("/srv/torch/sees.json", fmt.Appendf(nil, seenOn, arch, more), 0o644))
}

// measures is what the project's benchmark measures from the next commit on.
func (c *chain) measures(seconds float64) {
	c.project.write("measured.json", fmt.Sprintf(`{"examples": {"matmul": {"status": "ok", "duration_s": %g, "peak_memory_mb": 1000}}}`, seconds))
}

// standInTypes take the place of the base types but registry-image, by its name.
func standInTypes() string {
	text := "\nresource_types:\n"
	for _, name := range []string{"git", "s3", "github-release"} {
		text += "  - {name: " + name + ", type: registry-image, tags: [gpu], source: {repository: stand-in, tag: latest}}\n"
	}
	return text
}

func withStandIns(text string) string {
	if before, after, ok := strings.Cut(text, "\nresource_types:\n"); ok {
		return before + standInTypes() + after
	}
	return text + standInTypes()
}

func (c *chain) setPipeline(name string) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join("../../pipelines", name+".yml"))
	require.NoError(c.t, err)
	c.setPipelineText(name, string(text))
}

func (c *chain) setPipelineText(name, text string) {
	c.t.Helper()
	args := []string{"set-pipeline", "-n", "-p", name, "-c", c.fly.write(name+".yml", withStandIns(text))}
	c.fly.must(append(args, c.vars(name)...)...)
	c.fly.must("unpause-pipeline", "-p", name)
}

// vars are fly's arguments for the variables of a pipeline.
func (c *chain) vars(name string) (args []string) {
	c.t.Helper()
	vars, err := filepath.Abs("../../pipelines/vars/rocm-build.yml")
	require.NoError(c.t, err)
	args = append(args, "-l", vars)
	if name == "rocm-pr" {
		args = append(args, "-l", filepath.Join(filepath.Dir(vars), "rocm-pr.yml"))
	}
	set := map[string]any{
		"repo": c.project.uri, "ci-repo": outsideAt + "/git/ci.git", "build-tags": []string{"gpu", "compute-runtime=rocm"},
		"architectures": "gfx90a,gfx1100", "test-on": []string{"gfx90a", "gfx1100"}, "gfx": "gfx90a", "image-tag": "latest",
		"install-command": "", "unit-command": c.unit, "profile-command": `cp measured.json "$PROFILE_JSON"`,
		"wheel-command":   `python3 -c "import project; print('the wheel:', project.__file__)"`,
		"verify-pip-args": "--no-index", "s3-endpoint": outsideAt, "s3-bucket": "bucket", "s3-access-key": readKey, "s3-secret-key": writeKey, "github-token": token,
		"github-pr-token": token, "pr-resource-repository": "registry.example/github-pr-resource", "pr-resource-tag": "0.25.2", "s3-read-access-key": readKey, "s3-read-secret-key": "reads",
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		value, err := json.Marshal(set[key])
		require.NoError(c.t, err)
		args = append(args, "-y", key+"="+string(value))
	}
	return args
}

func (c *chain) checks(resources ...string) {
	c.t.Helper()
	for _, r := range resources {
		c.fly.must("check-resource", "-r", "rocm-build/"+r)
	}
}

// ends waits for the next build of each job, which must end so, and is what they said.
func (c *chain) ends(status string, jobs ...string) (said string) {
	c.t.Helper()
	return c.endsOf("rocm-build", status, jobs...)
}

func (c *chain) endsOf(pipeline, status string, jobs ...string) (said string) {
	c.t.Helper()
	for _, job := range jobs {
		c.last[job]++
		n := fmt.Sprint(c.last[job])
		var got string
		within(c.t, 10*time.Minute, func() bool {
			got = ""
			for _, b := range c.builds(pipeline + "/" + job) {
				if b.Name == n {
					got = b.Status
				}
			}
			return got != "" && got != "pending" && got != "started"
		}, job+"/"+n+" does not end")
		out, _ := c.fly.run("watch", "-j", pipeline+"/"+job, "-b", n) // which exits as the build did
		out = strings.ReplaceAll(out, "\r", "")
		require.Equal(c.t, status, got, "%s/%s: %s", job, n, out)
		c.t.Logf("%.1f s: %s/%s has %s", time.Since(c.story.last).Seconds(), job, n, status)
		said += out
	}
	return said
}

// none of these jobs has a build that was not awaited.
func (c *chain) none(jobs ...string) {
	c.t.Helper()
	for _, job := range jobs {
		require.Len(c.t, c.builds("rocm-build/"+job), c.last[job], job)
	}
}

func (c *chain) pushes(t *testing.T) {
	c.unit = `echo "$(ls /dev/dri) tested"`
	c.commit = c.project.push("the second")
	c.setPipeline("rocm-build")
	c.checks("source", "ci", "image", "verify-image", "baseline", "reference")
	said := c.ends("succeeded", "hip-check")
	for _, arch := range []string{"gfx90a", "gfx1100"} {
		require.Contains(t, said, "GPU 0: a GPU, "+arch+"\n", "each architecture is checked on a worker that has it")
	}
	require.Equal(t, 2, strings.Count(c.ends("succeeded", "unit"), "renderD128 tested\n"))
	require.Contains(t, c.ends("succeeded", "profile"), "no baseline yet")
	c.ends("succeeded", "wheel")
	said = c.ends("succeeded", "gpu-verify", "linux-verify")
	for _, arch := range []string{"gfx90a", "gfx1100"} {
		require.Contains(t, said, "project-1.2.3+rocm-py3-none-any.whl runs on "+arch+"\n")
	}
	require.Equal(t, 2, len(regexp.MustCompile(`the wheel: /tmp/\S+/installed/project/__init__\.py\n`).FindAllString(said, -1)))
	require.Contains(t, said, "project installs and imports\n")
	stored := strings.Join(c.outside.names("bucket"), "\n")
	short := c.commit[:12]
	require.Regexp(t, `^project/baselines/gfx90a/baseline-\d+\.json
project/profiles/gfx90a/profile-\d+-`+short+`\.json
project/references/nvidia-20261101\.json
project/reports/gfx90a/report-\d+-`+short+`\.tar
project/wheels/wheel-\d+-`+short+`\.tar$`, stored)
	c.none("release")
}

func (c *chain) tags(t *testing.T) {
	c.project.git("tag", "v1.2.3")
	c.project.publish()
	c.checks("tag")
	c.ends("succeeded", "release")
	require.Contains(t, c.ends("succeeded", "publish"), "index-url is empty: nothing is published\n")
	const at = "releases/team/project/v1.2.3"
	require.Subset(t, c.outside.names(at), []string{"commit", "files/project-1.2.3+rocm-py3-none-any.whl", "files/project-1.2.3+rocm-py3-none-any.whl.sha256", "files/v1.2.3-profile.json", "files/v1.2.3-report.md"})
	commit, err := os.ReadFile(filepath.Join(c.outside.dir, at, "commit"))
	require.NoError(t, err)
	require.Equal(t, c.commit, string(commit))
}

func (c *chain) hipFails(t *testing.T) {
	c.sees("gfx1100", `, "error": "invalid device function"`)
	c.measures(1.2)
	c.project.push("slower, and its GPU is broken")
	c.checks("source")
	require.Contains(t, c.ends("failed", "hip-check"), "FAILED: cuda:0 does not compute: invalid device function\n")
	c.project.git("tag", "v1.2.4")
	c.project.publish()
	c.checks("tag")
	require.Contains(t, c.ends("failed", "release"), "and the newest wheel that passed gpu-verify and linux-verify is of "+c.commit)
	c.none("unit", "profile", "wheel", "gpu-verify", "linux-verify")
	require.Len(t, c.outside.names("releases/team"), len(c.outside.names("releases/team/project/v1.2.3")), "nothing else is released")
}

func (c *chain) slower(t *testing.T) {
	c.sees("gfx1100", "")
	c.fly.must("trigger-job", "-j", "rocm-build/hip-check")
	c.ends("succeeded", "hip-check", "unit")
	said := c.ends("failed", "profile")
	require.Contains(t, said, "matmul")
	require.Contains(t, said, "by more than 10 % or 512 MB")
	c.none("wheel", "gpu-verify", "linux-verify")
	c.fly.must("trigger-job", "-j", "rocm-build/accept-baseline")
	c.ends("succeeded", "accept-baseline")
	c.fly.must("trigger-job", "-j", "rocm-build/profile")
	c.ends("succeeded", "profile", "wheel", "gpu-verify", "linux-verify")
}
