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

func metricsList(in func(*series.Family) bool) string {
	var b strings.Builder
	b.WriteString("\n")
	for _, f := range series.Families {
		if !in(f) {
			continue
		}
		labels := ""
		if len(f.Labels) > 0 {
			labels = "{" + strings.Join(f.Labels, ",") + "}"
		}
		fmt.Fprintf(&b, "- `%s%s`: %s\n", f.Name, labels, strings.ReplaceAll(f.Help, "<", "&lt;"))
	}
	return b.String() + "\n"
}

func isAlias(f *series.Family) bool { return strings.HasPrefix(f.Name, "DCGM_") }

// aliasList returns the list of NVIDIA's names, which have equal labels.
func aliasList(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n")
	for _, f := range series.Families {
		if isAlias(f) {
			require.Equal(t, []string{"UUID", "modelName"}, f.Labels, f.Name)
			fmt.Fprintf(&b, "- `%s`: %s\n", f.Name, strings.TrimSuffix(strings.TrimPrefix(f.Help, "Equals "), "."))
		}
	}
	return b.String() + "\n"
}

// The lists of the page are made from the exporter's own; the text around them
// is not touched.
func TestMetricsPageIsTheExportersList(t *testing.T) {
	page := readFile(t, metricsPage)
	alone := func(f *series.Family) bool { return !f.GPU || strings.HasPrefix(f.Name, "rocm_exporter") }
	for section, in := range map[string]func(*series.Family) bool{
		"gpu":      func(f *series.Family) bool { return !alone(f) && !isAlias(f) },
		"exporter": alone,
	} {
		page = withSection(t, page, section, metricsList(in))
	}
	page = withSection(t, page, "alias", aliasList(t))
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
	require.ElementsMatch(t, slices.Compact(want), terms(sectionOf(readFile(t, metricsPage), "labels")), "the labels of "+metricsPage)
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
	require.ElementsMatch(t, reading.Signals, terms(sectionOf(readFile(t, "docs/explanation/gpu-health.md"), "hangs-and-resets")))
}

func TestWeightsOfTheHealthScoreAreFromTheExporter(t *testing.T) {
	listed := map[health.Component]float64{}
	for _, row := range regexp.MustCompile(`(?m)^- (\w+) (\.\d+): `).FindAllStringSubmatch(readFile(t, "docs/explanation/gpu-health.md"), -1) {
		weight, err := strconv.ParseFloat(row[2], 64)
		require.NoError(t, err)
		listed[health.Component(row[1])] = weight
	}
	require.Equal(t, health.Weights, listed)
}
