//go:build terraform

package terraform

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// cachedEnv asks to skip what would first must build OpenTofu and the provider.
const cachedEnv = "TERRAFORM_CACHED_ONLY"

const notCached = "OpenTofu and Juju's provider are not in the cache folder: make test-terraform builds them, in some five minutes of two processors"

// modules are folders with a go.mod with tools that are the programs.
var modules = []string{"tofu", "provider"}

// workdir has the programs, and tofurc, by which OpenTofu finds the provider.
var workdir string

// skipped is why nothing runs, "" if it does.
var skipped string

func TestMain(m *testing.M) {
	there, err := suite.ToolsCached(modules...)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "cannot look for OpenTofu:", err)
		os.Exit(1)
	case os.Getenv(cachedEnv) != "" && !there:
		skipped = notCached
		os.Exit(m.Run())
	}
	os.Exit(suite.InFolder(m, programs))
}

// programs lays the provider out as the registry's mirror would, so that the module's
// range of versions counts.
func programs(dir string) error {
	workdir = dir
	for _, module := range modules {
		if err := suite.Tools(context.Background(), module, dir); err != nil {
			return err
		}
	}
	version, err := version("provider", "github.com/juju/terraform-provider-juju")
	if err != nil {
		return err
	}
	at := filepath.Join(dir, "mirror/registry.opentofu.org/juju/juju", version, runtime.GOOS+"_"+runtime.GOARCH)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "provider"), at); err != nil {
		return err
	}
	tofurc := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", filepath.Join(dir, "mirror"))
	return os.WriteFile(filepath.Join(dir, "tofurc"), []byte(tofurc), 0o644)
}
