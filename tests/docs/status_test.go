package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
)

const statusPage = "docs/reference/status.md"

// Every text in a table headed "status" or "reason", or in a list of the pages of statuses and
// refusals, is one that the code declares. So a change of a text must change the pages that
// quote it.
func TestQuotedStatusesAreTheCodes(t *testing.T) {
	x, quoting := newTexts(t), map[string]bool{}
	for page, md := range pages(t) {
		for _, text := range slices.Concat(column(md, "status"), column(md, "reason"), quoted(page, md)) {
			quoting[page] = true
			assert.True(t, x.declares(text), "%s: the code declares nothing like: %s", page, text)
		}
		for _, line := range code(md) {
			if row := shownStatus.FindStringSubmatch(line); row != nil {
				quoting["juju status"] = true
				assert.True(t, x.declares(row[1]), "%s: the code declares nothing like: %s", page, row[1])
			}
		}
	}
	for _, page := range []string{statusPage, wrapperPage, "docs/how-to/troubleshoot.md", "docs/how-to/choose-gpus-in-a-task.md", "juju status"} {
		require.True(t, quoting[page], page)
	}
	for text, want := range map[string]bool{
		`compute-runtime: "x" is not one of none, auto, rocm`:      true,
		`compute-runtime: "x" has to be one of none, auto`:         false,
		"no /dev/kfd — on the LXD host run: lxc restart c1":        true,
		"no /dev/kfd — on the LXD host please run: lxc restart c1": false,
		"Worker not ready: <reason>":                               true,
		"Worker unready: <reason>":                                 false,
		"Worker not registered at the web: <reason>":               true,
		"Worker not enrolled at ...":                               false,
		"Web server ready (v8.2.5)":                                true,
		"Web server is tired":                                      false,
		"Web server ready (tired)":                                 false,
		"no GPU passed through":                                    true,
		"no GPU passed through at all":                             false,
		"no sound passed through":                                  false,
		"the exporter does not answer":                             true,
		"the exporter does not answer the phone":                   false,
		"GPU 0: tired":                                             false,
		"PostgreSQL database wanted":                               false,
	} {
		require.Equal(t, want, x.declares(text), text)
	}
}

var shownStatus = regexp.MustCompile(`^\S+/\d+\*?\s+(?:active|blocked|waiting)\s+idle\s+(.*)$`)

// statusPackages make causes.
var statusPackages = []string{
	"charm", "charm/gpuhealth", "charm/role", "charm/web", "charm/worker", "charm/amd", "concourse", "concourse/release",
	"base/resource",
}

// TestReferenceListsEveryStatus compares the texts of causes with the page. A text of an
// option names its own fix, so the page has only some of them.
func TestReferenceListsEveryStatus(t *testing.T) {
	var wanted []string
	for _, pkg := range statusPackages {
		require.NotEmpty(t, causes(t, pkg), pkg)
		for text := range causes(t, pkg) {
			wanted = append(wanted, text)
		}
	}
	requireListed(t, statusPage, wanted)
}

// quoted returns the texts in the lists of a page that explains texts of the product.
func quoted(page, md string) []string {
	if page != statusPage && page != wrapperPage {
		return nil
	}
	return terms(md)
}

// longest has the longest realistic value for each example on the page.
var longest = strings.NewReplacer("8.2.5", "10.12.15", "8.3.0", "10.13.10", "8.2.4", "10.12.14", "9.0.0", "11.10.10",
	"gpu/0", "rocm-worker/128", "of gfx942", "of gfx90a, gfx942, gfx950, gfx1201", "has gfx942", "has gfx90a, gfx942, gfx950, gfx1201", "0000:03:00.0", "0000:03:00.0, 0000:43:00.0",
	"haproxy has", "haproxy-internal has", "glauth", "glauth-k8s", "tempo", "tempo-coordinator", "vault are", "vault-k8s are",
	"/dev/sda1", "/dev/mapper/vg-root", "of <application>", "of self-signed-certificates", "<time>", "2026-11-25 17:50 UTC",
	"<state>", "unsupported", "<unit>", "concourse-gpu-device-plugin.service", "<file>", "/etc/udev/rules.d/70-amdgpu.rules",
	"<reason>", "", "<its last line>", "", "<series>", "jammy, noble and resolute", "<URL>", "")

// TestEveryStatusFits fills each text of the page with the longest realistic values. Alone
// in a status it must be whole: with the command that shows its detail, if it has one. A
// reason at the end of a text may be cut, and so may a text that begins with "...".
func TestEveryStatusFits(t *testing.T) {
	more := map[*regexp.Regexp]bool{}
	for _, pkg := range statusPackages {
		for text, has := range causes(t, pkg) {
			parts := verb.Split(text, -1)
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			more[regexp.MustCompile("^"+strings.Join(parts, ".*")+"$")] = has && phrase.MatchString(text)
		}
	}
	checked, top := 0, ""
	for _, text := range terms(readFile(t, statusPage)) {
		if strings.HasPrefix(text, "...") {
			continue
		}
		cause := status.Block("%s", longest.Replace(text))
		for form, has := range more {
			if has && form.MatchString(text) {
				cause.Detail = "a detail"
				checked++
			}
		}
		s := status.Of("juju run concourse-ci/12 check-status", nil, []status.Cause{cause})
		assert.True(t, strings.HasPrefix(s.Message, cause.Text), "%d characters: %s", utf8.RuneCountInString(cause.Text), cause.Text)
		if utf8.RuneCountInString(s.Message) > utf8.RuneCountInString(top) {
			top = s.Message
		}
	}
	require.Greater(t, checked, 30)
	t.Logf("the longest, %d characters: %s", utf8.RuneCountInString(top), top)
}

// causes returns the format of each cause in a package, and whether it has a detail or a
// command.
func causes(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(root, "internal", pkg, "*.go"))
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if text, has := causeText(n); text != "" {
				out[text] = out[text] || has
			}
			return true
		})
	}
	return out
}

// causeText returns the format of a call such as status.Block("no %s", x).Run("y"), and
// whether more calls follow. It is "" for other nodes.
func causeText(n ast.Node) (text string, more bool) {
	for {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return "", false
		}
		to, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return "", false
		}
		switch to.Sel.Name {
		case "Block", "Wait", "Warn":
			below(call.Args[0], nil, func(part string) { text += part })
			return text, more
		case "Explain", "Run", "Fix":
			n, more = to.X, true
		case "As":
			n = to.X
		default:
			return "", false
		}
	}
}
