//go:build e2e

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

const (
	eventually = 2 * time.Minute
	tick       = 20 * time.Millisecond
)

// The built programs.
var gpukit, wrapper string

func TestMain(m *testing.M) {
	switch why := missing(); {
	case why != "" && os.Getenv("E2E") == "1":
		fmt.Fprintln(os.Stderr, "cannot run the tests of gpukit run:", why)
		os.Exit(1)
	case why != "":
		os.Exit(m.Run())
	}
	os.Exit(suite.InFolder(m, func(dir string) error {
		gpukit = filepath.Join(dir, "gpukit")
		wrapper = filepath.Join(dir, "runc-amd-wrapper")
		return suite.Build(dir, "./src/gpukit", "./src/runc-amd-wrapper")
	}))
}

func itoa(n int) string { return strconv.Itoa(n) }

// missing returns why the tests can't run here, "" if they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed for control groups"
	}
	if _, err := rungroup.Find(); err != nil {
		return err.Error()
	}
	return suite.Lacks("util-linux runc perl", "setpriv", "flock", "unshare", "runc", "perl")
}

func need(t *testing.T) {
	t.Helper()
	suite.Need(t, missing())
}
