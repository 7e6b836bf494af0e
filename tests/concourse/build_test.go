//go:build e2e

package concourse

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// built is the folder of the charm and the sandbox's tools. Nothing changes it after
// TestMain.
var built string

// build makes the charm, and a program that replaces Concourse.
func build(dir string) error {
	built = dir
	return suite.Charm(dir, "./tests/standin/concourse")
}

func charmDir() string { return filepath.Join(built, "charm") }

// tools is the program behind the hook tools.
func tools() string { return filepath.Join(built, "bin", "sandbox") }

// tarball is the release as it is attached to the application.
var tarball = sync.OnceValues(func() (string, error) { return pack(os.Getenv(suite.ReleaseEnv), "concourse.tgz") })

// pack makes a tarball of a release that the machines see.
func pack(path, name string) (string, error) {
	made := filepath.Join(built, name)
	return made, guest.PackRelease(context.Background(), path, made) // it ends with this program
}

// needRelease skips if no release is named.
func needRelease(t *testing.T) {
	t.Helper()
	need(t)
	if os.Getenv(suite.ReleaseEnv) == "" {
		t.Skip(suite.NoRelease)
	}
}

// releaseTarball is the tarball of the release to test with.
func releaseTarball(t *testing.T) string {
	t.Helper()
	needRelease(t)
	path, err := tarball()
	require.NoError(t, err, "%s is no Concourse release", suite.ReleaseEnv)
	return path
}

// unpacked is the same as a folder, for its help and its fly.
var unpacked = sync.OnceValues(func() (string, error) { return suite.ReleaseFolder(built) })
