//go:build e2e

package engines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// buildEngines builds the engines that Debian does not have from the module proxy: two
// minutes of a processor at first. One that can't be built fails `make e2e`; otherwise its
// test is skipped, and this text is the reason.
func buildEngines(into string) (failed error) {
	for name, build := range map[string]func(into string) error{"nerdctl": buildNerdctl, "CRI-O": buildCRIO} {
		if err := build(into); err != nil && os.Getenv("E2E") == "1" {
			failed = errors.Join(failed, err)
		} else if err != nil {
			fmt.Fprintf(os.Stderr, "without %s: %v\n", name, err)
		}
	}
	return failed
}

const nerdctlModule = "github.com/containerd/nerdctl/v2@v2.2.2"

// buildNerdctl builds it without its tests' helpers: they need a module of its repository
// that was never published.
func buildNerdctl(into string) error {
	src, err := os.MkdirTemp("", "nerdctl-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(src)
	download := exec.Command("go", "mod", "download", "-json", nerdctlModule)
	download.Dir = src // in a module it would belong to that
	out, err := download.Output()
	if err != nil {
		return fmt.Errorf("cannot download %s: %w\n%s", nerdctlModule, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return err
	}
	if err := os.CopyFS(src, os.DirFS(module.Dir)); err != nil {
		return err
	}
	helpers, err := filepath.Glob(filepath.Join(src, "cmd/nerdctl/helpers/testing*.go"))
	if err != nil {
		return err
	}
	for _, file := range helpers {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	tigron := filepath.Join(src, "mod/tigron")
	if err := os.MkdirAll(tigron, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tigron, "go.mod"), []byte("module github.com/containerd/nerdctl/mod/tigron\n"), 0o644); err != nil {
		return err
	}
	return suite.BuildIn(src, into, "./cmd/nerdctl")
}

// buildCRIO builds it and a client. What pins its namespaces is C.
func buildCRIO(into string) error {
	const module = "github.com/cri-o/cri-o"
	own := filepath.Join(hosttest.Source(), "tests/engines/crio")
	if err := suite.BuildIn(own, into, "-tags=exclude_graphdriver_btrfs,containers_image_openpgp", "./cri", module+"/cmd/crio"); err != nil {
		return err
	}
	where := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	where.Dir = own
	src, err := where.Output()
	if err != nil {
		return err
	}
	sources, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(src)), "pinns/src/*.c"))
	if err != nil {
		return err
	}
	if out, err := exec.Command("gcc", append([]string{"-std=c99", "-O2", "-o", filepath.Join(into, "pinns")}, sources...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build pinns (Debian: gcc libc6-dev): %w\n%s", err, out)
	}
	return nil
}

// needBuilt skips if a program could not be built.
func needBuilt(t *testing.T, name string) string {
	t.Helper()
	suite.Need(t, missing())
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skip(name + " could not be built; the first lines have the reason")
	}
	return path
}

// daemon starts a program that serves and waits until it answers. It returns its process
// and what ends it.
func daemon(t *testing.T, answers func() bool, argv ...string) (p *os.Process, stop func()) {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	require.NoError(t, c.Start())
	stop = sync.OnceFunc(func() {
		require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		_ = c.Wait() // how it ends is not a part of the test
		if t.Failed() {
			t.Log(log.String())
		}
	})
	t.Cleanup(stop)
	require.Eventually(t, answers, time.Minute, 50*time.Millisecond, "%s does not answer", argv[0])
	return c.Process, stop
}
