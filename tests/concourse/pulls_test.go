//go:build e2e

package concourse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
)

const (
	theirBaseline  = "project/baselines/gfx90a/baseline-20261101000000.json"
	theirReference = "project/references/nvidia-20261101.json"
)

// pull is a pull request that changes a file: its commit.
func (c *chain) pull(number, file, text string) string {
	c.t.Helper()
	c.project.git("checkout", "-q", "-b", "change"+number, "main")
	c.project.write(file, text)
	c.project.git("add", ".")
	c.project.git("commit", "-q", "-m", "change "+number)
	head := c.project.git("rev-parse", "HEAD")
	c.project.git("push", "-q", c.project.published, "HEAD:refs/pull/"+number+"/head")
	c.project.git("checkout", "-q", "main")
	require.NoError(c.t, guest.Command("git", "-C", c.project.published, "update-server-info"))
	c.opened += number + " " + head + "\n"
	c.outside.put("git/pulls", c.opened)
	return head
}

// told returns what the forge got of a pull request.
func (c *chain) told(number, what string) string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.outside.dir, "releases/pulls", number, what))
	require.NoError(c.t, err)
	return string(data)
}

func (c *chain) pulls(t *testing.T) {
	c.measures(1)
	c.project.push("the first")
	c.outside.put("bucket/"+theirBaseline, `{"examples": {"matmul": {"status": "ok", "duration_s": 0.95, "peak_memory_mb": 1000}}}`)
	c.outside.put("bucket/"+theirReference, `{"examples": {"matmul": {"status": "ok", "duration_s": 0.5, "peak_memory_mb": 900}}}`)

	// What it runs looks for the token of whoever cloned it.
	c.unit = "if grep -rl " + token + " . ../; then echo STOLEN; exit 9; fi; [ -f a.txt ] && echo its tree"
	head := c.pull("7", "a.txt", "a")
	c.setPipeline("rocm-pr")
	c.fly.must("check-resource", "-r", "rocm-pr/pull-request")
	said := c.endsOf("rocm-pr", "succeeded", "pull-request")
	require.Equal(t, 2, strings.Count(said, "its tree\n"))
	for _, arch := range []string{"gfx90a", "gfx1100"} {
		require.Contains(t, said, "project-1.2.3+rocm-py3-none-any.whl runs on "+arch+"\n")
	}
	require.Equal(t, "success", c.told("7", head+"-rocm"))
	comment := c.told("7", "comment.md")
	require.Contains(t, comment, "| `matmul` | within | 0.95 → 1 |")
	require.Contains(t, comment, "| `matmul` | within | 0.5 → 1 | +0.5 s (+100 %) |", "the reference")

	c.unit = "true"
	worse := c.pull("8", "measured.json", `{"examples": {"matmul": {"status": "ok", "duration_s": 2, "peak_memory_mb": 1000}}}`)
	c.setPipeline("rocm-pr")
	c.fly.must("check-resource", "-r", "rocm-pr/pull-request")
	require.Contains(t, c.endsOf("rocm-pr", "failed", "pull-request"), "by more than 10 % or 512 MB")
	require.Equal(t, "failure", c.told("8", worse+"-rocm"))
	require.Contains(t, c.told("8", "comment.md"), "| `matmul` | **beyond** |")
	require.Equal(t, []string{theirBaseline, theirReference}, c.outside.names("bucket"), "a pull request stores nothing")

	c.fly.must("pause-pipeline", "-p", "rocm-pr")
	require.NoError(t, os.Remove(filepath.Join(c.outside.dir, "bucket", theirBaseline)))
}
