package baseline

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// call runs the program.
func call(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(context.Background(), host.New(""), "gpu-baseline", "v1", args, Streams{strings.NewReader(stdin), &out, &errs})
	return code, out.String(), errs.String()
}

// in is a profile below testdata, seen from the package.
func in(dir, name string) string { return filepath.Join("testdata", dir, name+".json") }

// Each comparison is held as people and programs get it. The exit status is not a part of
// the goldens: -update must not change it.
func TestReportsOfEachKindAsTheyArePrinted(t *testing.T) {
	for name, c := range map[string]struct {
		dir  string
		code int
		args []string
	}{
		"no-limits":           {"limits", 0, nil},
		"within-limits":       {"limits", 0, []string{"--max-duration-pct", "12.5", "--max-duration-s=0.1", "--max-memory-mb", "512.000001"}},
		"beyond-limits":       {"limits", 1, []string{"--max-duration-pct=10", "--max-memory-mb=512"}},
		"beyond-no-growth":    {"limits", 1, []string{"--max-duration-s=0"}},
		"together":            {"limits", 1, []string{"--max-duration-pct=10", "--max-duration-s=0.05", "--max-memory-pct=60", "--max-memory-mb=512", "--together"}},
		"together-one-alone":  {"limits", 0, []string{"--max-duration-pct=10", "--max-duration-s=0.1", "--max-memory-pct=60", "--max-memory-mb=600", "--together"}},
		"statuses":            {"statuses", 1, []string{"--max-memory-mb=100"}},
		"statuses-allowed":    {"statuses", 1, []string{"--max-memory-mb=100", "--allow-missing"}},
		"zero-baseline":       {"zero", 0, []string{"--max-duration-pct=10", "--max-memory-mb=600"}},
		"zero-baseline-limit": {"zero", 1, []string{"--max-duration-pct=10", "--max-duration-s=1"}},
		"names":               {"names", 1, []string{"--max-duration-pct=10"}},
	} {
		for format, ending := range map[string]string{"text": "txt", "json": "golden.json", "markdown": "md"} {
			args := append([]string{"compare", in(c.dir, "base"), in(c.dir, "new"), "--format", format}, c.args...)
			code, stdout, stderr := call("", args...)
			require.Equal(t, c.code, code, "%s: %s", name, stderr)
			require.Empty(t, stderr, name)
			hosttest.Golden(t, filepath.Join("testdata", name+"."+ending), stdout)
			if format == "json" {
				require.True(t, json.Valid([]byte(stdout)), name)
			}
			again, _, _ := call("", args...)
			require.Equal(t, code, again)
		}
	}
}

func TestFirstRunHasNoBaseline(t *testing.T) {
	code, stdout, stderr := call("", "compare", "testdata/none.json", in("limits", "new"))
	require.Equal(t, 2, code)
	require.Empty(t, stdout)
	require.Equal(t, "gpu-baseline: cannot read testdata/none.json: no such file or directory; "+
		"on a first run give --allow-no-base, and keep testdata/limits/new.json as the baseline\n", stderr)

	code, stdout, _ = call("", "compare", "--allow-no-base", "testdata/none.json", in("limits", "new"))
	require.Zero(t, code)
	hosttest.Golden(t, "testdata/first-run.txt", stdout)

	code, _, stderr = call("", "compare", "--allow-no-base", in("limits", "base"), "testdata/none.json")
	require.Equal(t, 2, code, "only the baseline may be missing")
	require.Contains(t, stderr, "cannot read testdata/none.json: no such file or directory\n")
	code, _, _ = call("", "compare", "--allow-no-base", "testdata", in("limits", "new"))
	require.Equal(t, 2, code, "one that can't be read is not one that is missing")
}

// Energy has no limit. Its columns are there if an example has it.
func TestEnergyIsComparedIfItWasMeasured(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
		return p
	}
	base := file("base.json", `{"examples": {"matmul": {"status": "ok", "duration_s": 1, "energy_j": 200}, "sort": {"status": "ok", "duration_s": 1}}}`)
	now := file("new.json", `{"examples": {"matmul": {"status": "ok", "duration_s": 1, "energy_j": 250.5}, "sort": {"status": "ok", "duration_s": 1, "energy_j": 3}}}`)
	status, stdout, _ := call("", "compare", base, now, "--max-duration-pct=1", "--format=markdown")
	require.Zero(t, status)
	require.Contains(t, stdout, "| peak memory (MB) | change | energy (J) | change |\n|---|---|---|---|---|---|---|---|\n")
	require.Contains(t, stdout, "| `matmul` | within | 1 → 1 | 0 s (0 %) | - | - | 200 → 250.5 | +50.5 J (+25.25 %) |")
	require.Contains(t, stdout, "| - → 3 | - |")
	_, stdout, _ = call("", "compare", base, now, "--format=json")
	require.Contains(t, stdout, `"energy_delta_j": 50.5`)
	_, stdout, _ = call("", "compare", base, now)
	require.Regexp(t, `ENERGY J +CHANGE\n`, stdout)
}

// GFM splits a row at each pipe that no backslash precedes, code or not.
func TestMarkdownRowsHaveSixCellsWhateverTheNames(t *testing.T) {
	_, stdout, _ := call("", "compare", in("names", "base"), in("names", "new"), "--format=markdown")
	rows := 0
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "|") {
			rows++
			require.Equal(t, 7, strings.Count(line, "|"), line)
			require.NotContains(t, line, `\|`)
		}
		require.NotContains(t, line, "\x1b")
		require.NotContains(t, line, "@")
		require.NotContains(t, line, "\u202e")
	}
	require.Equal(t, 2+8+2, rows)
}
