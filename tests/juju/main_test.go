package juju

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.

	_ "github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// built has the unpacked charm, Juju's program behind its hook tools and two
// stand-in releases, made once. Nothing changes it after TestMain.
var built string

func TestMain(m *testing.M) { os.Exit(suite.InFolder(m, build)) }

func charmDir() string              { return filepath.Join(built, "charm") }
func jujuc() string                 { return filepath.Join(built, "jujuc") }
func standIns() string              { return filepath.Join(built, "bin", "sandbox") }
func release(version string) string { return filepath.Join(built, "concourse-"+version+".tgz") }

// build makes the charm with programs that are, but for dispatch, a few bytes, and
// Juju's program, which is in this folder's module.
func build(dir string) error {
	built = dir
	err := suite.LightCharm(dir)
	if err == nil {
		err = suite.BuildIn(".", dir, "github.com/juju/juju/cmd/jujuc")
	}
	for _, version := range []string{"8.2.5", "8.3.0"} {
		err = cmp.Or(err, sandbox.StandInRelease(release(version), version))
	}
	return err
}
