//go:build e2e

package concourse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"concourse-ci-machine/tests/debian"
	"concourse-ci-machine/tests/suite"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.
	_ "concourse-ci-machine/internal/charm/command/cli"
)

const (
	machineEnv = "CONCOURSE_TEST_MACHINE" // set in a machine's process 1
	patience   = 2 * time.Minute          // bounds each wait
	tick       = 50 * time.Millisecond
)

// missing says why the tests can't run here; empty when they can.
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
	if os.Getenv(machineEnv) != "" && os.Getpid() == 1 {
		fmt.Fprintln(os.Stderr, "a machine does not start:", runMachine())
		os.Exit(1)
	}
	// CNI and iptables are where a user's PATH may not lead.
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	os.Exit(suite.Namespaced{Name: "Concourse", Missing: missing(), Flags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		Outside: ownGroups, Inside: inside}.Run(m))
}

// groups is the folder of ownGroups.
var groups string

// ownGroups is a control group below which the machines have theirs, in the
// unified hierarchy, and what takes all of it away. Before that it has the systems made
// where there are none yet: inside there is no network.
func ownGroups() (string, func() error, error) {
	if _, err := debian.Base(context.Background()); err != nil { // it ends with this program
		return "", nil, err
	}
	if _, err := postgresDebs(context.Background()); err != nil {
		return "", nil, err
	}
	if os.Getenv(suite.ReleaseEnv) != "" {
		if _, err := ciImage(); err != nil {
			return "", nil, err
		}
	}
	dir, err := os.MkdirTemp("", "concourse-groups-")
	if err != nil {
		return "", nil, err
	}
	for _, do := range []func() error{
		func() error { return unix.Unshare(unix.CLONE_NEWNS) },
		func() error { return unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return unix.Mount("cgroup2", dir, "cgroup2", 0, "") },
	} {
		if err := do(); err != nil {
			return "", nil, fmt.Errorf("cannot mount the control groups: %w", errors.Join(err, os.Remove(dir)))
		}
	}
	top := filepath.Join(dir, filepath.Base(dir))
	return top, func() error {
		var all []string
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return err
		})
		for _, group := range slices.Backward(all) { // none of them has a process any more
			err = errors.Join(err, unix.Rmdir(group))
		}
		return errors.Join(err, unix.Unmount(dir, 0), os.Remove(dir))
	}, os.Mkdir(top, 0o755)
}

// inside prepares the network that the machines are connected by.
func inside(m *testing.M, told string) int {
	groups = told
	for _, argv := range [][]string{{"mount", "-t", "proc", "proc", "/proc"}, {"mount", "-t", "sysfs", "sysfs", "/sys"}, {"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", "br0", "type", "bridge"}, {"ip", "address", "add", gateway + "/24", "dev", "br0"}, {"ip", "link", "set", "br0", "up"}} {
		if err := command(argv...); err != nil {
			fmt.Fprintln(os.Stderr, "cannot set up the namespaces:", err)
			return 1
		}
	}
	return suite.InFolder(m, build)
}
