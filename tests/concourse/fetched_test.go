//go:build e2e

package concourse

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/concourse"
)

// TestImagesAreFetchedOnce is what docs/how-to/fetch-once.md says of images, with a real
// Concourse: how often workers ask a registry. That is the stand-in of resource.py, which
// tells each request.
func TestImagesAreFetchedOnce(t *testing.T) {
	c := &chain{story: &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}, outside: newOutside(t), last: map[string]int{}}
	c.app = newApp(t, chainTarball(t), map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip", "tag": "unit={unit}",
		"registry-mirror": "ci:hunter2@mirror.example:5000"}, "no-gpu", "mi210x4", "amd")
	for _, u := range c.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
	}
	c.isUp()
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"each worker asks the mirror, for its own first task", c.each},
		{"warm workers ask nobody", c.warm},
		{"with enable-cache-streamed-volumes the second worker asks nobody", c.streamed},
	} {
		c.story.last = time.Now()
		if !t.Run(step.name, func(t *testing.T) {
			c.in(t)
			c.outside.t = t
			step.do(t)
		}) {
			return
		}
	}
}

// uses runs a task of an image on one worker, and tells what was asked of registries.
func (c *chain) uses(unit int, image string) (asked []string) {
	c.t.Helper()
	began := time.Now()
	task := c.fly.write("uses.yml", "platform: linux\nimage_resource: {type: registry-image, source: {repository: rocm/pytorch, tag: latest}, version: {digest: \"sha256:"+image+
		"\"}}\nrun: {path: \"true\"}\n")
	before := len(c.outside.requests())
	c.fly.must("execute", "-c", task, "--tag", fmt.Sprintf("unit=concourse-ci-machine-%d", unit))
	asked = c.outside.requests()[before:]
	c.since(began, fmt.Sprintf("a task of image %s on worker %d: %d requests", image, unit, len(asked)))
	return asked
}

func mirrored(images ...string) (all []string) {
	for _, i := range images {
		all = append(all, "mirror.example:5000/rocm/pytorch@sha256:"+i)
	}
	return all
}

func (c *chain) each(t *testing.T) {
	require.Equal(t, mirrored("a"), c.uses(1, "a"))
	require.Equal(t, mirrored("a"), c.uses(2, "a"))
	require.Empty(t, c.uses(1, "a"))
}

func (c *chain) warm(t *testing.T) {
	text, err := os.ReadFile("../../pipelines/warm-images.yml")
	require.NoError(t, err)
	text = []byte(strings.Replace(string(text), "resources:\n", "resource_types:\n  - {name: time, type: registry-image, tags: [gpu], source: {repository: stand-in, tag: latest}}\nresources:\n", 1))
	c.fly.must("set-pipeline", "-n", "-p", "warm-images", "-c", c.fly.write("warm.yml", string(text)), "-y", "tags=[gpu]",
		"-y", `workers=["unit=concourse-ci-machine-1", "unit=concourse-ci-machine-2"]`,
		"-y", `images=[{"repository": "rocm/pytorch", "tag": "latest", "digest": "sha256:b"}]`)
	c.fly.must("unpause-pipeline", "-p", "warm-images")
	before := len(c.outside.requests())
	c.fly.must("check-resource", "-r", "warm-images/night")
	c.endsOf("warm-images", "succeeded", "warm")
	asked := slices.DeleteFunc(c.outside.requests()[before:], func(r string) bool { return strings.Contains(r, "stand-in") })
	require.Equal(t, mirrored("b", "b"), asked)
	require.Empty(t, c.uses(1, "b"))
	require.Empty(t, c.uses(2, "b"))
}

func (c *chain) streamed(t *testing.T) {
	require.NoError(t, c.web().Model.SetConfig("enable-cache-streamed-volumes", true))
	c.app.hook(c.web(), "config-changed")
	for _, u := range c.app.units[1:] {
		c.ready(u)
	}
	require.Equal(t, mirrored("c"), c.uses(1, "c"))
	require.Empty(t, c.uses(2, "c"))
	require.Empty(t, c.uses(2, "c"))
}
