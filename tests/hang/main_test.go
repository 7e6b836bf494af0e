//go:build e2e

package hang

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// built holds the unpacked charm and a stand-in release.
var built string

// The tests have a network and their own mounts: the exporter listens on a fixed port.
func TestMain(m *testing.M) {
	os.Exit(suite.Namespaced{Name: "GPUs that hang", Missing: missing(), Flags: syscall.CLONE_NEWNET,
		Outside: func() (string, func() error, error) { return suite.Folder("hang-", build) },
		Inside: func(m *testing.M, told string) int {
			built = told
			if err := run("ip", "link", "set", "lo", "up"); err != nil {
				fmt.Fprintln(os.Stderr, "cannot set up a network for the tests:", err)
				return 1
			}
			return m.Run()
		}}.Run(m))
}

func build(dir string) error {
	if err := suite.LightCharm(dir); err != nil {
		return err
	}
	return sandbox.StandInRelease(filepath.Join(dir, "concourse.tgz"), "8.2.5")
}
