//go:build e2e

package concourse

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// TestImagesAreFetchedOnce holds docs/how-to/fetch-once.md on images against a real
// Concourse: how often workers ask a registry. That is the stand-in of resource.py, which
// reports each request.
func TestImagesAreFetchedOnce(t *testing.T) {
	c := &chain{story: &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}, outside: newOutside(t), last: map[string]int{}}
	c.app = newApp(t, chainTarball(t), map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip", "tag": "unit={unit}",
		"registry-mirror": "ci:hunter2@mirror.example:5000"}, "no-gpu", "mi210x4", "amd")
	for _, u := range c.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
	}
	c.isUp()
	c.tell(t, []step{
		{"each worker asks the mirror, for its own first task", c.each},
		{"warm workers ask nobody", c.warm},
		{"with --enable-cache-streamed-volumes the second worker asks nobody", c.streamed},
	})
}

// task is one of an image that a step names whole.
func (c *chain) task(image, run string) (file string) {
	c.t.Helper()
	return c.fly.write(image+".yml", `platform: linux
image_resource: {type: registry-image, source: {repository: rocm/pytorch, tag: latest}, version: {digest: "sha256:`+image+`"}}
run: {path: sh, args: [-ec, "`+run+`"]}
`)
}

// uses runs a task of an image on a worker with this tag, and returns what was asked of
// registries and what the build said.
func (c *chain) uses(tag, image string) (asked []string, said string) {
	c.t.Helper()
	began, before := time.Now(), len(c.outside.requests())
	said = c.fly.must("execute", "-c", c.task(image, "true"), "--tag", tag)
	asked = c.outside.requests()[before:]
	c.since(began, fmt.Sprintf("a task of image %s on a worker with the tag %s: %d requests", image, tag, len(asked)))
	return asked, said
}

func (c *chain) asks(tag, image string, want ...string) {
	c.t.Helper()
	asked, _ := c.uses(tag, image)
	require.Equal(c.t, mirrored(want...), asked)
}

const firstWorker, secondWorker = "unit=concourse-ci-machine-1", "unit=concourse-ci-machine-2"

func mirrored(images ...string) []string {
	all := []string{}
	for _, i := range images {
		all = append(all, "mirror.example:5000/rocm/pytorch@sha256:"+i)
	}
	return all
}

func (c *chain) each(t *testing.T) {
	c.asks(firstWorker, "a", "a")
	c.asks(secondWorker, "a", "a")
	c.asks(firstWorker, "a")
}

func (c *chain) warm(t *testing.T) {
	text, err := os.ReadFile("../../pipelines/warm-images.yml")
	require.NoError(t, err)
	text = []byte(strings.Replace(string(text), "resources:\n", "resource_types:\n  - {name: time, type: registry-image, tags: [gpu], source: {repository: stand-in, tag: latest}}\nresources:\n", 1))
	c.fly.must("set-pipeline", "-n", "-p", "warm-images", "-c", c.fly.write("warm.yml", string(text)), "-y", "tags=[gpu]",
		"-y", `workers=["`+firstWorker+`", "`+secondWorker+`"]`,
		"-y", `images=[{"repository": "rocm/pytorch", "tag": "latest", "digest": "sha256:b"}]`)
	c.fly.must("unpause-pipeline", "-p", "warm-images")
	before := len(c.outside.requests())
	c.fly.must("check-resource", "-r", "warm-images/night")
	c.endsOf("warm-images", "succeeded", "warm")
	asked := slices.DeleteFunc(c.outside.requests()[before:], func(r string) bool { return strings.Contains(r, "stand-in") })
	require.Equal(t, mirrored("b", "b"), asked)
	c.asks(firstWorker, "b")
	c.asks(secondWorker, "b")
}

// A worker gets a volume from another that the step's tags allow, too. The first is made so
// busy that the step goes to the second.
func (c *chain) streamed(t *testing.T) {
	web := c.web()
	require.NoError(t, web.Model.SetConfig("extra-web-flags", "--enable-cache-streamed-volumes"))
	require.NoError(t, web.Model.SetConfig("container-placement-strategy", "fewest-build-containers"))
	c.app.hook(web, "config-changed")
	for _, u := range c.app.units[1:] {
		c.ready(u)
	}
	c.asks(firstWorker, "c", "c")
	first, second := c.nameOf(c.app.units[1]), c.nameOf(c.app.units[2])
	busy := c.task("b", "sleep 600")
	for range 3 {
		fly := c.fly.command("execute", "-c", busy, "--tag", firstWorker)
		require.NoError(t, fly.Start())
		t.Cleanup(func() {
			fly.Process.Kill() // it may have ended
			fly.Wait()
		})
	}
	until(t, func() bool {
		return len(regexp.MustCompile(`(?m)^.*`+first+`.* task .*$`).FindAllString(c.fly.must("containers"), -1)) >= 3
	})
	for range 2 {
		asked, said := c.uses("gpu", "c")
		require.Contains(t, said, second)
		require.Empty(t, asked)
	}
}
