package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/jobexporter"
)

const metricsPage = "docs/reference/metrics.md"

var ofEveryGPU = []string{"gpu", "uuid", "pci_bus_id"}

// completed adds the labels that the exporter's goldens show and the source
// does not in one expression, and those of two more places.
func completed(t *testing.T) []*family {
	all := families(t)
	goldens, err := filepath.Glob(filepath.Join(root, "internal/exporter/testdata/*.prom"))
	require.NoError(t, err)
	require.NotEmpty(t, goldens)
	byName := map[string]*family{}
	for _, f := range all {
		byName[f.name] = f
		switch {
		case strings.HasPrefix(f.name, "DCGM_"): // Collector.addDCGM
			f.add("UUID", "modelName")
		case f.name == "rocm_gpu_temperature_emergency_celsius": // as the crit one, which goldens show
			f.add("sensor")
		}
	}
	for _, g := range goldens {
		shown := readFile(t, strings.TrimPrefix(g, root+"/"))
		for _, m := range regexp.MustCompile(`(?m)^(\w+)\{(.*)\} `).FindAllStringSubmatch(shown, -1) {
			require.Contains(t, byName, m[1])
			for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[2], -1) {
				if f := byName[m[1]]; f.alone || !slices.Contains(ofEveryGPU, l[1]) {
					f.add(l[1])
				}
			}
		}
	}
	return all
}

func metricsTable(all []*family, in func(*family) bool) string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, f := range all {
		if !in(f) {
			continue
		}
		labels := ""
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		help := strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(f.help)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, labels, help)
	}
	return b.String()
}

// The tables of the page are made from the exporter's own; the text around them
// is not touched.
func TestMetricsPageIsTheExportersTable(t *testing.T) {
	all, page := completed(t), readFile(t, metricsPage)
	alone := func(f *family) bool { return f.alone || strings.HasPrefix(f.name, "rocm_exporter") }
	alias := func(f *family) bool { return strings.HasPrefix(f.name, "DCGM_") }
	for section, in := range map[string]func(*family) bool{
		"gpu":      func(f *family) bool { return !alone(f) && !alias(f) },
		"exporter": alone,
		"alias":    alias,
	} {
		page = withSection(t, page, section, metricsTable(all, in))
	}
	hosttest.Golden(t, filepath.Join(root, metricsPage), page)
}

func TestEveryLabelOfAMetricIsExplained(t *testing.T) {
	want := slices.Clone(ofEveryGPU)
	for _, f := range completed(t) {
		want = append(want, f.labels...)
	}
	slices.Sort(want)
	var listed []string
	for _, row := range table(readFile(t, metricsPage), "label") {
		listed = append(listed, spans(row[0])...)
	}
	require.ElementsMatch(t, slices.Compact(want), listed)
}

// Other pages speak of metrics that there are.
func TestNamedMetricsAreThoseOfTheExporter(t *testing.T) {
	known := map[string]bool{}
	for _, f := range families(t) {
		known[f.name] = true
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

func TestExportersHelpIsOnTheCommandsPage(t *testing.T) {
	require.Contains(t, readFile(t, "docs/reference/commands.md"), "\n```text\n"+readFile(t, "internal/exporter/testdata/help.txt")+"```\n")
}

func TestHangSignalsAreThoseOfTheExporter(t *testing.T) {
	var known, listed []string
	for _, m := range regexp.MustCompile(`(?m)^\tsignal\w+ += "(\w+)"`).FindAllStringSubmatch(readFile(t, "internal/exporter/hang.go"), -1) {
		known = append(known, m[1])
	}
	for _, row := range table(readFile(t, "docs/explanation/gpu-health.md"), "signal") {
		listed = append(listed, spans(row[0])...)
	}
	require.ElementsMatch(t, known, listed)
}

func TestWeightsOfTheHealthScoreAreThoseOfTheExporter(t *testing.T) {
	var known, listed [][]string
	source := readFile(t, "internal/exporter/health/components.go")
	for _, m := range regexp.MustCompile(`add\((by\w+), (\.\d+),`).FindAllStringSubmatch(source, -1) {
		name := regexp.MustCompile(`\b` + m[1] + ` += "(\w+)"`).FindStringSubmatch(source)
		require.NotNil(t, name, m[1])
		known = append(known, []string{name[1], m[2]})
	}
	for _, row := range table(readFile(t, "docs/explanation/gpu-health.md"), "component") {
		listed = append(listed, row[:2])
	}
	require.NotEmpty(t, known)
	require.Equal(t, known, listed)
}
