package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestErrorsPageIsTheCharmsTable(t *testing.T) {
	const name = "docs/reference/gpu-errors.md"
	var b strings.Builder
	list := func(title, mark string, lines []string) {
		fmt.Fprintf(&b, "\n%s:\n\n", title)
		for _, l := range lines {
			fmt.Fprintf(&b, "%s %s\n", mark, strings.ReplaceAll(l, "<", "&lt;"))
		}
	}
	for _, e := range amd.ErrorCodes("dispatch") {
		fmt.Fprintf(&b, "\n## %d %s\n\n%s. %s [Kernel](%s)\n", e.Code, e.Name, e.Severity, e.Description, e.Link)
		fmt.Fprintf(&b, "\nCauses: %s.\n", strings.ReplaceAll(strings.Join(e.Causes, "; "), "<", "&lt;"))
		list("What to do", "1.", e.Actions)
		var shows []string
		last := amd.Source("")
		for _, s := range e.Detected {
			what := s.What
			if !strings.Contains(what, "`") {
				what = "`" + what + "`"
			}
			if s.Source == last {
				shows[len(shows)-1] += ", " + what
			} else {
				shows = append(shows, string(s.Source)+": "+what)
			}
			last = s.Source
		}
		list("How it shows", "-", shows)
	}
	b.WriteString("\n")
	hosttest.Golden(t, filepath.Join(root, name), withSection(t, readFile(t, name), "errors", b.String()))
}

// labelling matches the parts of an expression that only choose labels. The page omits them.
var labelling = regexp.MustCompile(`\b(?:max|sum) (?:by|without) \([\w, ]*\) | ignoring \([\w, ]*\)`)

// action matches an action in a remedy. The page shows it without the words that all have.
var action = regexp.MustCompile(`juju run UNIT ([a-z-]+(?: [a-z]+=\w+)*)`)

func TestAlertsPageIsTheRules(t *testing.T) {
	const name = "docs/reference/alerts.md"
	page := readFile(t, name)
	for section, file := range map[string]string{"alerts": "prometheus_alert_rules/amd-alerts.yaml", "alerts of Concourse": "prometheus_alert_rules/concourse-alerts.yaml",
		"alerts on logs of GPUs": "loki_alert_rules/amd-logs.yaml", "alerts on logs of Concourse": "loki_alert_rules/concourse-logs.yaml", "alerts on logs of the charm": "loki_alert_rules/charm-logs.yaml"} {
		var rules struct {
			Groups []struct {
				Rules []struct {
					Alert, Expr, For string
					Labels           map[string]string
					Annotations      map[string]string
				}
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "src/"+file)), &rules))
		var b strings.Builder
		b.WriteString("| alert | when | what to do |\n|---|---|---|\n")
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				expr := labelling.ReplaceAllString(strings.Join(strings.Fields(r.Expr), " "), "")
				expr = strings.ReplaceAll(expr, "|", `\|`)
				description := r.Annotations["description"]
				remedy := r.Annotations["action"]
				if strings.HasPrefix(file, "loki") {
					_, remedy, _ = strings.Cut(description, "What to do: ")
				}
				require.NotEmpty(t, remedy, r.Alert)
				require.Contains(t, description, remedy, "%s: a receiver may show only one of the two", r.Alert)
				named := func(text string) string {
					upper := regexp.MustCompile(`\{\{ \$labels\.\w+ \}\}`).ReplaceAllStringFunc(text, func(s string) string {
						return strings.ToUpper(strings.TrimPrefix(strings.Trim(s, "{} "), "$labels."))
					})
					return strings.ReplaceAll(upper, "JUJU_", "")
				}
				when := "`" + expr + "`"
				if strings.HasPrefix(file, "loki") { // a query on lines of logs, which no one reads
					when = named(r.Annotations["summary"])
				}
				if r.For != "" {
					when += " for " + r.For
				}
				mark := map[string]string{"critical": " **critical**", "warning": ""}
				require.Contains(t, mark, r.Labels["severity"], r.Alert)
				fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", r.Alert, mark[r.Labels["severity"]], when, action.ReplaceAllString(named(remedy), "`$1`"))
			}
		}
		require.Greater(t, strings.Count(b.String(), "\n"), 2)
		page = withSection(t, page, section, b.String())
	}
	hosttest.Golden(t, filepath.Join(root, name), page)
}
