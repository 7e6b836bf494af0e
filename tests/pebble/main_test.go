//go:build e2e

package pebble

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// stuck is when a test gives up on a program; no test waits for it otherwise.
const stuck = 2 * time.Minute

// built has the programs as `make build` makes them; nothing changes it after
// TestMain.
var built string

func TestMain(m *testing.M) { os.Exit(suite.InFolder(m, build)) }

func build(dir string) error {
	built = dir
	return suite.Build(dir, "./src/rocm-exporter", "./src/concourse-exporter", suite.Pebble)
}

// needRoot skips if services can't be started as another user, but not under `make e2e`.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		require.NotEqual(t, "1", os.Getenv("E2E"), "these tests need root")
		t.Skip("needs root, to start services as nobody")
	}
}

// eventually waits until what is true.
func eventually(t *testing.T, is func() bool, what string, args ...any) {
	t.Helper()
	require.Eventually(t, is, stuck, 20*time.Millisecond, fmt.Sprintf(what, args...))
}
