package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/series"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const metricsPage = "docs/reference/metrics.md"

var ofEveryGPU = []string{"gpu", "uuid", "pci_bus_id"}

func metricsTable(in func(*series.Family) bool) string {
	var b strings.Builder
	b.WriteString("| metric{labels} | meaning |\n|---|---|\n")
	for _, f := range series.Families {
		if !in(f) {
			continue
		}
		labels := ""
		if len(f.Labels) > 0 {
			labels = "{" + strings.Join(f.Labels, ",") + "}"
		}
		help := strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(f.Help)
		fmt.Fprintf(&b, "| `%s%s` | %s |\n", f.Name, labels, help)
	}
	return b.String()
}

func isAlias(f *series.Family) bool { return strings.HasPrefix(f.Name, "DCGM_") }

// aliasTable returns the table of NVIDIA's names, which have equal labels.
func aliasTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| NVIDIA's name | metric |\n|---|---|\n")
	for _, f := range series.Families {
		if isAlias(f) {
			require.Equal(t, []string{"UUID", "modelName"}, f.Labels, f.Name)
			fmt.Fprintf(&b, "| `%s` | %s |\n", f.Name, strings.TrimSuffix(strings.TrimPrefix(f.Help, "Equals "), "."))
		}
	}
	return b.String()
}

// The tables of the page are made from the exporter's own; the text around them
// is not touched.
func TestMetricsPageIsTheExportersTable(t *testing.T) {
	page := readFile(t, metricsPage)
	alone := func(f *series.Family) bool { return !f.GPU || strings.HasPrefix(f.Name, "rocm_exporter") }
	for section, in := range map[string]func(*series.Family) bool{
		"gpu":      func(f *series.Family) bool { return !alone(f) && !isAlias(f) },
		"exporter": alone,
	} {
		page = withSection(t, page, section, metricsTable(in))
	}
	page = withSection(t, page, "alias", aliasTable(t))
	hosttest.Golden(t, filepath.Join(root, metricsPage), page)
}

// The metrics of the first release have one line of the changelog together. Its list is never extended.
func TestNewMetricsHaveAFixtureAndALineOfTheChangelog(t *testing.T) {
	first := strings.Fields(readFile(t, "tests/docs/testdata/first-metrics.txt"))
	shown := readFile(t, "CHANGELOG.md")
	var tests strings.Builder
	for _, pattern := range []string{"internal/exporter/testdata/*.prom", "internal/exporter/*_test.go", "internal/exporter/series/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			name, err := filepath.Rel(root, file)
			require.NoError(t, err)
			tests.WriteString(readFile(t, name))
		}
	}
	for _, f := range series.Families {
		if slices.Contains(first, f.Name) {
			continue
		}
		whole := regexp.MustCompile(`\b` + f.Name + `\b`)
		require.True(t, whole.MatchString(shown), "CHANGELOG.md lacks a line with %s", f.Name)
		require.True(t, whole.MatchString(tests.String()), "no fixture and no test of internal/exporter has %s", f.Name)
	}
}

func TestEveryLabelOfAMetricIsExplained(t *testing.T) {
	want := slices.Clone(ofEveryGPU)
	for _, f := range series.Families {
		want = append(want, f.Labels...)
	}
	slices.Sort(want)
	var listed []string
	for _, row := range table(readFile(t, metricsPage), "label") {
		listed = append(listed, spans(row[0])...)
	}
	require.ElementsMatch(t, slices.Compact(want), listed)
}

// Other pages speak of metrics that there are.
func TestNamedMetricsAreFromTheExporter(t *testing.T) {
	known := map[string]bool{}
	for _, f := range series.Families {
		known[f.Name] = true
	}
	for _, f := range jobexporter.Families() {
		known[f.Name] = true
	}
	for name, md := range pages(t) {
		for _, m := range regexp.MustCompile("`((?:rocm|concourse)_[a-z_]+)`").FindAllStringSubmatch(md, -1) {
			require.True(t, known[m[1]], "%s: there is no metric %s", name, m[1])
		}
	}
}

func TestExportersFlagsAreInItsReadme(t *testing.T) {
	for _, command := range []string{"serve", "write-gpus", "record-tasks"} {
		var flags []string
		help := readFile(t, "internal/exporter/testdata/"+command+".txt")
		for _, m := range regexp.MustCompile(`(?m)^  (--[a-z0-9.-]+(?:=[A-Z]+)?)`).FindAllStringSubmatch(help, -1) {
			flags = append(flags, m[1])
		}
		_, section, ok := strings.Cut(readFile(t, "src/rocm-exporter/README.md"), "\n### "+command)
		require.True(t, ok)
		section, _, _ = strings.Cut(section, "\n### ")
		require.ElementsMatch(t, flags, column(section, "flag"), command)
	}
}

func TestHangSignalsAreFromTheExporter(t *testing.T) {
	var listed []string
	for _, row := range table(readFile(t, "docs/explanation/gpu-health.md"), "signal") {
		listed = append(listed, spans(row[0])...)
	}
	require.ElementsMatch(t, reading.Signals, listed)
}

func TestWeightsOfTheHealthScoreAreFromTheExporter(t *testing.T) {
	listed := map[health.Component]float64{}
	for _, row := range table(readFile(t, "docs/explanation/gpu-health.md"), "component") {
		weight, err := strconv.ParseFloat(row[1], 64)
		require.NoError(t, err)
		listed[health.Component(row[0])] = weight
	}
	require.Equal(t, health.Weights, listed)
}
