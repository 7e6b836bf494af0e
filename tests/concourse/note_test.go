//go:build e2e

package concourse

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// errorsFile is the file in which the driver counts the errors of the fixture's GPU.
const errorsFile = "/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0/ras/umc_err_count"

// countErrors has the driver of a unit's GPU count so many errors that can't be corrected.
// The file stays the same one: the exporter keeps it open.
func (u *unit) countErrors(n int) {
	u.t.Helper()
	require.NoError(u.t, os.WriteFile(u.fake().Path(errorsFile), fmt.Appendf(nil, "ue: %d\nce: 0\n", n), 0o644))
}

// on is the unit with a worker that has the build's task.
func (s *story) on(b *oneBuild) *unit {
	s.t.Helper()
	var on *unit
	until(s.t, func() bool {
		require.False(s.t, b.ended(), b.out)
		for _, u := range s.app.units[1:] {
			if u.Root.Exists("/srv/out_rw/" + b.name) {
				on = u
			}
		}
		return on != nil
	}, "the task does not run")
	return on
}

var buildNumber = regexp.MustCompile(`executing build (\d+) `)

// met: a GPU falls sick under a build, and the output reports it. The build continues, or
// ends now if requested.
func (s *story) met(t *testing.T) {
	s.sets(map[string]any{"gpu-sharing": "exclusive", "extra-web-flags": "--max-active-tasks-per-worker=0"})
	told := func(n int) string {
		return fmt.Sprintf("\nconcourse-ci-machine: GPU 0: %d uncorrectable error", n)
	}
	b := s.starts("told")
	u := s.on(b)
	shows := func(text string) func() bool {
		return func() bool {
			require.False(t, b.ended(), b.out)
			said, err := os.ReadFile(b.log)
			require.NoError(t, err)
			return strings.Contains(string(said), text)
		}
	}
	const leased = ", healthy, lease of this task"
	until(t, shows(leased), "the build does not show its GPU")
	begin := time.Now()
	u.countErrors(1)
	until(t, shows(told(1)), "the build is not told")
	s.since(begin, "the build is told")
	u.must("/opt/concourse-ci-machine/bin/dispatch gpu watch") // another look reports nothing to it
	s.letGo(b)
	require.Equal(t, 1, strings.Count(b.out, told(1)), b.out)
	require.Equal(t, 1, strings.Count(b.out, leased), b.out)
	require.Contains(t, b.out, "\nconcourse-ci-machine: GPU 0: ")
	require.Contains(t, b.out, "Quarantined. What ran on it may be lost or wrong: run the build again")
	number := buildNumber.FindStringSubmatch(b.out)
	require.NotNil(t, number, b.out)
	require.Contains(t, s.fly.must("watch", "-b", number[1]), told(1))
	u.action("return-gpu", map[string]any{"gpu": "0"}) // the error is, and is known
	s.sets(map[string]any{"gpu-sharing": "shared"})
}
