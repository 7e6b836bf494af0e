//go:build e2e

package jobexporter

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// accepted is what promtool may report: of the predecessor's names, which are gauges.
var accepted = []string{"concourse_jobs_total non-counter metrics should not have", "concourse_pipelines_total non-counter metrics should not have"}

func TestPromtoolAcceptsTheMetrics(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		suite.Without(t, "prometheus")
	}
	web := atctest.New(t)
	web.Set((*atctest.Server).Site)
	e := newExporter(t, web.URL, "admin", "s3 cr&t", time.Now)
	require.NoError(t, e.Poll(t.Context()))
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(e.text())
	out, err := check.CombinedOutput() // 3 if it has remarks
	if check.ProcessState.ExitCode() != 3 {
		require.NoError(t, err, string(out))
	}
	var said []string
	for line := range strings.Lines(string(out)) {
		for _, a := range accepted {
			if strings.HasPrefix(line, a) {
				said = append(said, a)
				line = ""
			}
		}
		require.Empty(t, strings.TrimSpace(line))
	}
	require.Equal(t, accepted, said)
}
