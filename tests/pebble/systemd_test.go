//go:build e2e

package pebble

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

// verify is what systemd's own reader must report of a unit file.
func verify(t *testing.T, content string) (remarks string) {
	t.Helper()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("E2E") == "1" && !strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ",systemd,") {
			require.NoError(t, err)
		}
		t.Skip("systemd-analyze is not installed (Debian: systemd)")
	}
	file := filepath.Join(t.TempDir(), role.PebbleUnit)
	require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	out, err := exec.Command(tool, "verify", "--man=no", file).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, role.PebbleUnit) { // others' units are the machine's own matter
			remarks += line
		}
	}
	if remarks == "" {
		require.NoError(t, err, string(out))
	}
	return remarks
}

func TestSystemdReadsTheUnit(t *testing.T) {
	u := newUnit(t)
	file, err := u.ReadFile(unitPath)
	require.NoError(t, err)
	require.Empty(t, verify(t, string(file)))
	for _, wrong := range [][2]string{
		{"KillMode=control-group", "KillMode=all"}, {"WatchdogSec=60", "WatchdogSec=often"},
		{"StartLimitIntervalSec=", "StartLimitInterval2="}, {"/bin/pebble run", "/bin/pebbel run"},
	} {
		require.NotEmpty(t, verify(t, replace(t, string(file), wrong[0], wrong[1])), "%s is not noticed", wrong[1])
	}
}

// systemd waits longer for Pebble than that waits for its services.
func TestStopIsLongEnoughForTheServices(t *testing.T) {
	u := newUnit(t)
	file, err := u.ReadFile(unitPath)
	require.NoError(t, err)
	seconds := func(pattern, text string) time.Duration {
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		require.NotNil(t, m, text)
		d, err := time.ParseDuration(m[1] + "s")
		require.NoError(t, err)
		return d
	}
	kill := seconds(`kill-delay: (\d+)s`, u.layer)
	require.Greater(t, seconds(`TimeoutStopSec=(\d+)`, string(file)), 2*kill)
}
