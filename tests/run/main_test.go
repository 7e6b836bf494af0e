//go:build e2e

package run

import (
	"os"
	"testing"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

const (
	eventually = 2 * time.Minute
	tick       = 20 * time.Millisecond
)

func need(t *testing.T) {
	t.Helper()
	why := suite.Lacks("util-linux", "setpriv")
	if os.Geteuid() != 0 {
		why = "root is needed for control groups"
	} else if _, err := rungroup.Find(); err != nil {
		why = err.Error()
	}
	suite.Need(t, why)
}
