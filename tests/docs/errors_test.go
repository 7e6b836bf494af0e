package docs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/signs"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestErrorsPageIsTheCharmsTable(t *testing.T) {
	const name = "docs/reference/gpu-errors.md"
	var b strings.Builder
	for _, e := range amd.ErrorCodes("dispatch") {
		fmt.Fprintf(&b, "\n## %d %s\n\n%s. %s [Kernel](%s)\n", e.Code, e.Name, e.Severity, e.Description, e.Link)
		b.WriteString("\n")
		for _, action := range e.Actions {
			fmt.Fprintf(&b, "1. %s\n", strings.ReplaceAll(action, "<", "&lt;"))
		}
		var lines []string
		for _, s := range e.Detected {
			if s.Source == amd.FromKernel {
				lines = append(lines, "`"+s.What+"`")
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\nKernel: %s\n", strings.Join(lines, ", "))
		}
	}
	b.WriteString("\n")
	hosttest.Golden(t, filepath.Join(root, name), withSection(t, readFile(t, name), "errors", b.String()))
}

// inQuotes matches a text of the kernel.
var inQuotes = regexp.MustCompile(`"([^"]+)"`)

// The kernel's lines of each error have its meaning for all that read them.
func TestKernelLinesOfErrorsAreSigns(t *testing.T) {
	want := map[int][]signs.Meaning{1: {signs.Memory}, 2: {signs.Stuck, signs.Hung, signs.Reset, signs.Recovered, signs.Dead},
		3: {signs.Link, signs.Lost}, 7: {signs.Memory}, 8: {signs.Link}}
	shown := map[signs.Meaning]bool{}
	for _, e := range amd.ErrorCodes("dispatch") {
		for _, s := range e.Detected {
			if s.Source != amd.FromKernel || strings.HasPrefix(s.What, "NVIDIA") || want[e.Code] == nil {
				continue
			}
			for _, text := range inQuotes.FindAllStringSubmatch(s.What, -1) {
				f, ok := signs.Read("amdgpu 0000:03:00.0: amdgpu: " + strings.ReplaceAll(text[1], "...", "x"))
				if !ok {
					f, ok = signs.Read("amdgpu 0000:03:00.0: 4 " + text[1])
				}
				require.True(t, ok && slices.Contains(want[e.Code], f.Meaning), "%d: %s", e.Code, text[1])
				shown[f.Meaning] = true
			}
		}
	}
	require.Len(t, shown, 8)
}

// The alerts on the kernel's lines are made from the table of signs.
func TestAlertsOnKernelLinesAreTheTable(t *testing.T) {
	const name = "src/loki_alert_rules/amd-logs.yaml"
	rules := readFile(t, name)
	for alert, of := range map[string]func(signs.Sign) bool{
		"AMDGPUResetFailed": func(s signs.Sign) bool { return s.Meaning == signs.Dead },
		"AMDGPUPageFault":   func(s signs.Sign) bool { return s.Meaning == signs.Fault && strings.Contains(s.Text, " fault ") },
	} {
		var texts, fixed []string
		for _, s := range signs.Table {
			if of(s) {
				texts, fixed = append(texts, s.Pattern()), append(fixed, fixedPart(s.Text))
			}
		}
		any := strings.Join(texts, "|")
		from := strings.Index(rules, "- alert: "+alert)
		require.Positive(t, from)
		replace := func(operator, pattern string) {
			at := from + strings.Index(rules[from:], operator+" `") + len(operator) + 2
			rules = rules[:at] + pattern + rules[at+strings.Index(rules[at:], "`"):]
		}
		replace("|~", anyOf(fixed))
		replace("| regexp", `amdgpu (?P<pci_bus_id>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): `+
			`(?:amdgpu: |\[drm\S*?(?: \[amdgpu\])?\] |\*ERROR\* )*(?:`+any+`)`)
	}
	hosttest.Golden(t, filepath.Join(root, name), rules)
}

// fixedPart returns the longest part of a sign's text that is equal in all lines. Loki finds
// fixed texts fast, and its filter of lines fails for some expressions.
func fixedPart(text string) string {
	parts := strings.Split(text, "...")
	longest := slices.MaxFunc(parts, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	return strings.Trim(longest, "[]() ")
}

// anyOf returns an expression for lines with any of the texts.
func anyOf(texts []string) string {
	var short []string // a text with another one in it adds nothing
	for i, text := range texts {
		if !slices.ContainsFunc(slices.Concat(texts[:i], texts[i+1:]), func(o string) bool {
			return o != text && strings.Contains(text, o)
		}) {
			short = append(short, regexp.QuoteMeta(text))
		}
	}
	slices.Sort(short)
	return strings.Join(slices.Compact(short), "|")
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
		b.WriteString("\n")
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				expr := labelling.ReplaceAllString(strings.Join(strings.Fields(r.Expr), " "), "")
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
				mark := map[string]string{"critical": " (**critical**)", "warning": ""}
				require.Contains(t, mark, r.Labels["severity"], r.Alert)
				fmt.Fprintf(&b, "- `%s`%s: %s; %s\n", r.Alert, mark[r.Labels["severity"]], when, action.ReplaceAllString(named(remedy), "`$1`"))
			}
		}
		require.Greater(t, strings.Count(b.String(), "\n"), 1)
		page = withSection(t, page, section, b.String()+"\n")
	}
	hosttest.Golden(t, filepath.Join(root, name), page)
}
