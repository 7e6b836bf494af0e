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

// said tells whether the charm, or the wrapper, says a text.
type said struct {
	pieces   []string
	complete string // texts of the reference pages, which others shorten
}

// example are values that each page has its own of.
var example = regexp.MustCompile(`juju-[0-9a-f]+-\d+|<container>|pci=\S+| \(only 1 \w+\)`)

func newSaid(t *testing.T) said {
	t.Helper()
	complete := slices.Concat(column(readFile(t, statusPage), "status"), column(readFile(t, wrapperPage), "message"))
	complete = slices.DeleteFunc(complete, func(text string) bool { return strings.HasSuffix(text, " ...") })
	return said{
		// The last have white space that no literal has: within a value, or between two.
		append(pieces(literals(t, "./...")), " <reason>", " accept-gpus", " df -h", " NVIDIA", " Not Found", " UTC", " install ", " juju-", " http://", " /opt/", " tsa-host"),
		example.ReplaceAllString(strings.Join(complete, "\n"), ""),
	}
}

func (s said) has(text string) bool {
	if made(text, s.pieces, regexp.MustCompile(`^(<[^<>]*>|[^\s<>])`)) {
		return true
	}
	left := regexp.MustCompile(`<[^<>]*>|\\\.\\\.\\\.`)
	shortened := left.ReplaceAllString(regexp.QuoteMeta(example.ReplaceAllString(text, "")), ".*")
	return strings.Contains(text, "...") && regexp.MustCompile("(?m)^"+shortened+"$").MatchString(s.complete)
}

// Every text in a table headed "status", "message" or "reason" is one that the code
// says, so a change of a text has to change the pages that quote it.
func TestQuotedStatusesAreTheCodes(t *testing.T) {
	s, quoting := newSaid(t), map[string]bool{}
	for page, md := range pages(t) {
		for _, text := range slices.Concat(column(md, "status"), column(md, "message"), column(md, "reason")) {
			quoting[page] = true
			assert.True(t, s.has(text), "%s: the code says nothing like: %s", page, text)
		}
	}
	for _, page := range []string{statusPage, wrapperPage, "docs/how-to/troubleshoot.md", "docs/how-to/choose-gpus-in-a-task.md"} {
		require.True(t, quoting[page], page)
	}
	for text, want := range map[string]bool{
		`compute-runtime: "x" is not one of none, auto, rocm`:      true,
		`compute-runtime: "x" has to be one of none, auto`:         false,
		"no /dev/kfd — on the LXD host run: lxc restart c1":        true,
		"no /dev/kfd — on the LXD host please run: lxc restart c1": false,
		"Worker unready: <reason>":                                 false,
		"Worker not registered at ...":                             true,
		"Worker not enrolled at ...":                               false,
	} {
		require.Equal(t, want, s.has(text), text)
	}
}

// So is what pages show of juju status.
func TestShownStatusesAreTheCodes(t *testing.T) {
	s, n := newSaid(t), 0
	for page, md := range pages(t) {
		for _, line := range code(md) {
			if row := regexp.MustCompile(`^\S+/\d+\*?\s+(?:active|blocked|waiting)\s+idle\s+(.*)$`).FindStringSubmatch(line); row != nil {
				n++
				assert.True(t, s.has(row[1]), "%s: the code says nothing like: %s", page, row[1])
			}
		}
	}
	require.Greater(t, n, 3)
}

// statusPackages make causes.
var statusPackages = []string{
	"charm", "charm/gpuhealth", "charm/role", "charm/web", "charm/worker", "gpu/amd", "concourse", "concourse/release",
	"base/resource",
}

// TestReferenceListsEveryStatus compares the texts of causes with the page. A text of an
// option names its own fix, so the page has only some of them.
func TestReferenceListsEveryStatus(t *testing.T) {
	var wanted []string
	for _, pkg := range statusPackages {
		require.NotEmpty(t, texts(t, pkg), pkg)
		for text := range texts(t, pkg) {
			wanted = append(wanted, text)
		}
	}
	requireListed(t, statusPage, wanted)
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
		for text, has := range texts(t, pkg) {
			parts := verb.Split(text, -1)
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			more[regexp.MustCompile("^"+strings.Join(parts, ".*")+"$")] = has && phrase.MatchString(text)
		}
	}
	checked, top := 0, ""
	for _, text := range column(readFile(t, statusPage), "status") {
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
		s := status.Of("concourse-ci/12", nil, []status.Cause{cause})
		assert.True(t, strings.HasPrefix(s.Message, cause.Text), "%d characters: %s", utf8.RuneCountInString(cause.Text), cause.Text)
		if utf8.RuneCountInString(s.Message) > utf8.RuneCountInString(top) {
			top = s.Message
		}
	}
	require.Greater(t, checked, 30)
	t.Logf("the longest, %d characters: %s", utf8.RuneCountInString(top), top)
}

// texts returns the format of each cause in a package, and whether it has a detail or a
// command.
func texts(t *testing.T, pkg string) map[string]bool {
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
