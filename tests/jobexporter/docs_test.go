// Package jobexporter holds concourse-exporter against its page and, under
// `make e2e`, against promtool and a real Concourse.
package jobexporter

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	page   = "../../docs/reference/job-metrics.md"
	readme = "../../src/concourse-exporter/README.md"
	source = "../../internal/concourse/jobexporter/"
)

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

func withSection(t *testing.T, md, name, text string) string {
	t.Helper()
	begin, end := "<!-- made: "+name+" -->\n", "<!-- end -->\n"
	before, rest, ok := strings.Cut(md, begin)
	require.True(t, ok, begin)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, end)
	return before + begin + text + end + after
}

func TestPageIsTheExporters(t *testing.T) {
	var metrics strings.Builder
	metrics.WriteString("\n")
	for _, f := range jobexporter.Families() {
		shown := ""
		if len(f.Labels) > 0 {
			shown = "{" + strings.Join(f.Labels, ",") + "}"
		}
		fmt.Fprintf(&metrics, "- `%s%s`: %s\n", f.Name, shown, f.Help)
	}
	metrics.WriteString("\n")
	file, err := login.Credentials{
		URL: "https://10.0.0.2:8443", Username: "admin", Password: "...",
		CAFile: "/etc/ssl/certs/ci.pem", ServerName: "ci.example.com",
	}.Marshal()
	require.NoError(t, err)
	hosttest.Golden(t, page, withSection(t, read(t, page), "metrics", metrics.String()))
	hosttest.Golden(t, readme, withSection(t, read(t, readme), "credentials", "```json\n"+string(file)+"```\n"))
}

// firsts returns the code spans of the first cells of a table of the README.
func firsts(t *testing.T, heading string) (out []string) {
	t.Helper()
	_, rest, ok := strings.Cut(read(t, readme), "\n| "+heading+" |")
	require.True(t, ok, heading)
	rest, _, _ = strings.Cut(rest, "\n\n")
	for line := range strings.Lines(rest) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") {
			out = append(out, spans(cells[0])...)
		}
	}
	return out
}

// spans returns the code spans of a text.
func spans(text string) (out []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// terms returns what the list after a text of the page explains.
func terms(t *testing.T, after string) (out []string) {
	t.Helper()
	_, rest, ok := strings.Cut(read(t, page), after)
	require.True(t, ok, after)
	rest, _, _ = strings.Cut(strings.TrimLeft(rest, "\n"), "\n\n")
	for _, m := range regexp.MustCompile("(?m)^- ([^:]+):").FindAllStringSubmatch(rest, -1) {
		out = append(out, spans(m[1])...)
	}
	return out
}

func TestEveryLabelResultAndKeyIsExplained(t *testing.T) {
	var want []string
	for _, f := range jobexporter.Families() {
		want = append(want, f.Labels...)
	}
	slices.Sort(want)
	require.ElementsMatch(t, slices.Compact(want), terms(t, "\nLabels:\n"))

	want = nil
	for _, m := range regexp.MustCompile(`polls_total\{result="(\w+)"`).FindAllStringSubmatch(read(t, source+"testdata/site.prom"), -1) {
		want = append(want, m[1])
	}
	require.ElementsMatch(t, want, append(terms(t, "pipelines and teams are absent.\n"), "ok"))

	want = nil
	for _, f := range reflect.VisibleFields(reflect.TypeFor[login.Credentials]()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		want = append(want, key)
	}
	require.ElementsMatch(t, want, firsts(t, "key"))
}

func TestEveryFlagIsExplained(t *testing.T) {
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^  (--[a-z.-]+(?:=[A-Z]+)?)`).FindAllStringSubmatch(read(t, source+"testdata/help.txt"), -1) {
		want = append(want, m[1])
	}
	require.ElementsMatch(t, want, firsts(t, "flag"))
}

func TestNamedMetricsAndFlagsAreFromTheExporter(t *testing.T) {
	known := map[string]bool{}
	for _, f := range jobexporter.Families() {
		known[f.Name] = true
	}
	md := read(t, page) + read(t, readme)
	for _, m := range regexp.MustCompile("`(concourse_[a-z_]+)`").FindAllStringSubmatch(md, -1) {
		require.True(t, known[m[1]], m[1])
	}
	help := read(t, source+"testdata/help.txt")
	for _, m := range regexp.MustCompile("`(--[a-z.-]+)`").FindAllStringSubmatch(md, -1) {
		require.Regexp(t, "\n  "+regexp.QuoteMeta(m[1])+"[= ]", help)
	}
	require.Contains(t, md, fmt.Sprintf(":%d/metrics", wellknown.JobsPort))
	require.Contains(t, md, "$"+jobexporter.CredentialsEnv)
}
