package exporter

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// After a report without users, tasks get GPUs that other programs use as soon as free ones.
func TestFirstReportHasTheUsers(t *testing.T) {
	r := hosttest.Host(t, "amd")
	first := filepath.Join(t.TempDir(), "first")
	script := `[ -e "$1" ] || cp "$0" "$1"; kill -TERM "$PPID"`
	line := []string{"write-gpus", "/run/gpus.json", "--path.root=" + string(r), "--usage.report=/run/usage.json", "--",
		"/bin/sh", "-c", script, r.Path("/run/gpus.json"), first}
	var out, errs bytes.Buffer
	require.Zero(t, Run("v1.2.3", line, &out, &errs), errs.String())
	data, err := os.ReadFile(first)
	require.NoError(t, err)
	require.Contains(t, string(data), `"users_time":"`)
}
