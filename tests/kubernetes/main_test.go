//go:build kubernetes

package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// cachedEnv asks to skip what would first must build Kubernetes.
const cachedEnv = "KUBERNETES_CACHED_ONLY"

const notCached = "the programs of Kubernetes and containerd are not in the cache folder: make test-kubernetes builds them, in some ten minutes of two processors"

// kubernetes is the folder of the release under test: KUBERNETES=1.36 is an older one.
var kubernetes = strings.TrimSuffix("k8s-"+os.Getenv("KUBERNETES"), "-")

// modules are folders with a go.mod with tools that are programs of the node.
var modules = []string{kubernetes, "containerd", "helm"}

// dir has what was built, and what the node writes; the node's control groups are below
// one with its name.
var dir string

// skipped is why nothing runs, "" if it does.
var skipped string

func TestMain(m *testing.M) {
	there, err := suite.ToolsCached(modules...)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "cannot look for the programs of Kubernetes:", err)
		os.Exit(1)
	case os.Getenv(cachedEnv) != "" && !there:
		skipped = notCached
		os.Exit(m.Run())
	}
	os.Exit(suite.Namespaced{
		Name:    "Kubernetes",
		Missing: missing(),
		Flags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Outside: build,
		Inside:  inside,
	}.Run(m))
}

func need(t *testing.T) {
	t.Helper()
	suite.Need(t, cmp.Or(skipped, missing()))
}

func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed to run a node of Kubernetes"
	}
	if lacks := suite.Lacks("etcd-server containerd runc busybox-static iproute2", "etcd", "containerd", "containerd-shim-runc-v2", "runc", "busybox", "ip", "go"); lacks != "" {
		return lacks
	}
	if _, err := os.Stat(filepath.Join(networkPlugins, "ptp")); err != nil {
		return networkPlugins + "/ptp is not there (Debian: containernetworking-plugins)"
	}
	numbers, err := suite.Minors()
	if err == nil && len(numbers) < 1+gpus {
		err = fmt.Errorf("/proc/misc has too few devices to stand in for %d GPUs", gpus)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func build() (told string, end func() error, err error) {
	told, remove, err := suite.Folder("kubernetes-test-", buildIn)
	return told, func() error { return errors.Join(removeGroups(told), remove()) }, err
}

func buildIn(dir string) error {
	for _, module := range modules {
		if err := suite.Tools(context.Background(), module, dir); err != nil {
			return err
		}
	}
	if err := suite.Build(dir, "./src/dispatch", "./src/runc-amd-wrapper", "./src/gpu-device-plugin", "./src/rocm-exporter"); err != nil {
		return err
	}
	if err := suite.Driver(dir); err != nil {
		return err
	}
	c := exec.Command("make", "images", "IMAGE="+filepath.Join(dir, nodeArchive), "IMAGE_NAME="+nodeImage, "VERSION=1.0.0")
	c.Dir = hosttest.Source()
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make the image of the DaemonSet: %w\n%s", err, out)
	}
	if err := os.Mkdir(filepath.Join(dir, "concourse"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink("../runc-amd-wrapper", filepath.Join(dir, "concourse/runc")); err != nil { // as Concourse finds it
		return err
	}
	return makeGroups(dir)
}

func inside(m *testing.M, told string) int {
	dir = told
	return suite.Beneath(m, ownMachine)
}
