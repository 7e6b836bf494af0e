//go:build e2e

package concourse

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"

	"github.com/stretchr/testify/require"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.
	_ "github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
)

const (
	patience = 2 * time.Minute // bounds each wait
	tick     = 50 * time.Millisecond

	// gateway is the address of the tests and PostgreSQL, for the machines.
	gateway = guest.Gateway
)

// missing reports why the tests can't run here; empty when they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed for namespaces"
	}
	if lacks := suite.Lacks("iproute2 mount util-linux debootstrap busybox-static containerd runc golang",
		"ip", "mount", "nsenter", "debootstrap", "busybox", "containerd", "ctr", "runc", "go"); lacks != "" {
		return lacks
	}
	if postgresBin() == "" {
		return "PostgreSQL is not installed (Debian: postgresql)"
	}
	return ""
}

func need(t *testing.T) { suite.Need(t, missing()) }

// until waits for something to become true, asking in the test's own goroutine.
func until(t *testing.T, is func() bool, why ...any) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(tick) {
		if time.Now().After(end) {
			require.Fail(t, "it did not become true in "+patience.String(), why...)
		}
	}
}

func TestMain(m *testing.M) {
	guest.Intercept()
	// CNI and iptables are in folders that a user's PATH may lack.
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	os.Exit(suite.Namespaced{Name: "Concourse", Missing: missing(), Flags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		Outside: ownGroups, Inside: inside}.Run(m))
}

// groups is the folder of ownGroups.
var groups string

// ownGroups is a control group below which the machines have theirs, in the unified
// hierarchy, and what takes all of it away. Before that it has the systems made if there
// are none yet: inside there is no network.
func ownGroups() (string, func() error, error) {
	if _, err := debian.Base(context.Background()); err != nil { // it ends with this program
		return "", nil, err
	}
	if _, err := debian.Repository(context.Background()); err != nil {
		return "", nil, err
	}
	if os.Getenv(suite.ReleaseEnv) != "" {
		if _, err := ciImage(); err != nil {
			return "", nil, err
		}
	}
	return guest.MakeGroups()
}

// inside prepares the network that the machines are connected by.
func inside(m *testing.M, told string) int {
	groups = told
	if err := guest.MakeNetwork(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot set up the namespaces:", err)
		return 1
	}
	return suite.InFolder(m, build)
}
