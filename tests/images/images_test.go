//go:build e2e

// Package images imports the image for nodes of Kubernetes into its own containerd, and
// runs its programs there.
package images

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	root = "../.."
	name = "registry.example/concourse-gpu-node:1.2.3"
	// patience is for containerd's start on a busy machine.
	patience = 2 * time.Minute
)

// made is the archive of make images.
func made(t *testing.T, dir, file string) string {
	t.Helper()
	path := filepath.Join(dir, file)
	c := exec.Command("make", "images", "IMAGE="+path, "IMAGE_NAME="+name, "VERSION=1.2.3")
	c.Dir = root
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// containerd starts a containerd and returns its client, on a containerd of the test's.
func containerd(t *testing.T, dir string) (ctr func(args ...string) (string, error)) {
	t.Helper()
	for _, program := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			require.Empty(t, os.Getenv("E2E"), "needs "+program)
			t.Skip("needs containerd and runc")
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	config := filepath.Join(dir, "config.toml")
	const text = "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	socket := filepath.Join(dir, "sock")
	c := exec.Command("containerd", "--config", config, "--root", filepath.Join(dir, "root"),
		"--state", filepath.Join(dir, "state"), "--address", socket)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	c.Stdout, c.Stderr = log, log
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		_ = c.Wait()
		log.Close()
	})
	ctr = func(args ...string) (string, error) {
		out, err := exec.Command("ctr", append([]string{"--address", socket}, args...)...).CombinedOutput()
		return string(out), err
	}
	require.Eventually(t, func() bool { _, err := ctr("version"); return err == nil }, patience, 100*time.Millisecond)
	return ctr
}

func TestContainerdImportsAndRunsTheImage(t *testing.T) {
	dir := t.TempDir()
	archive := made(t, dir, "one.tar")
	ctr := containerd(t, dir)
	out, err := ctr("images", "import", "--all-platforms", "--no-unpack", archive)
	require.NoError(t, err, out)
	out, err = ctr("images", "ls")
	require.NoError(t, err, out)
	require.Contains(t, out, name)
	require.Contains(t, out, "linux/amd64,linux/arm64")
	out, err = ctr("images", "import", "--snapshotter", "native", archive)
	require.NoError(t, err, out)
	for _, program := range []string{"/gpu-device-plugin", "/rocm-exporter", "/gpukit"} {
		id := strings.TrimPrefix(program, "/")
		out, err := ctr("run", "--rm", "--snapshotter", "native", "--read-only", name, id, program, "--version")
		require.NoError(t, err, out)
		require.Contains(t, out, "1.2.3", program)
	}

	// The labels, as the DaemonSet writes them; a machine without a GPU has an empty file.
	features := filepath.Join(dir, "features")
	require.NoError(t, os.Mkdir(features, 0o755))
	out, err = ctr("run", "--rm", "--snapshotter", "native", "--read-only",
		"--mount", "type=bind,src=/dev,dst=/dev,options=bind:ro",
		"--mount", "type=bind,src="+features+",dst=/features,options=rbind:rw", name, "labels",
		"/gpukit", "kubernetes", "labels", "--output", "/features/concourse-gpu")
	require.NoError(t, err, out)
	require.FileExists(t, filepath.Join(features, "concourse-gpu"))
}

// No engine loads an image with a + in its tag, which a version of development has.
func TestImageOfADevelopmentVersionHasATag(t *testing.T) {
	c := exec.Command("make", "--dry-run", "images", "VERSION=1.2.3-dev.4+abc")
	c.Dir = root
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), `-name "concourse-gpu-node:1.2.3-dev.4.abc"`)
}

// The archive names no time, no machine and no folder.
func TestTwoBuildsOfTheImageHaveTheSameBytes(t *testing.T) {
	dir := t.TempDir()
	sum := func(path string) string {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return fmt.Sprintf("%x", sha256.Sum256(data))
	}
	require.Equal(t, sum(made(t, dir, "one.tar")), sum(made(t, dir, "two.tar")))
}
