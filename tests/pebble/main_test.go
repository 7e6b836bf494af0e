//go:build e2e

package pebble

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stuck is when a test gives up on a program; no test waits for it otherwise.
const stuck = 2 * time.Minute

// built has the programs as `make build` makes them; nothing changes it after
// TestMain.
var built string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if built, err = os.MkdirTemp("", "pebble-test-"); err == nil {
		defer os.RemoveAll(built)
		err = build()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build() error {
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", built+string(filepath.Separator),
		"../../src/rocm-exporter", "github.com/canonical/pebble/cmd/pebble")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the programs: %w\n%s", err, out)
	}
	return nil
}

// needRoot skips where services can't be started as another user, but not under
// `make e2e`.
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
