package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	for _, page := range []string{statusPage, wrapperPage, "docs/how-to/troubleshoot.md", "docs/how-to/choose-gpus-in-a-task.md", "docs/how-to/folders-for-tasks.md"} {
		require.True(t, quoting[page], page)
	}
	for text, want := range map[string]bool{
		`compute-runtime: "x" is not one of none, auto, rocm`:        true,
		`compute-runtime: "x" has to be one of none, auto`:           false,
		"no /dev/kfd — on the LXD host run: lxc restart c1":          true,
		"no /dev/kfd — on the LXD host please run: lxc restart c1":   false,
		"Worker unready: <reason>; see journalctl":                   false,
		"Worker not ...; see journalctl --unit concourse-worker":     true,
		"Worker not ...; see journalctl --unit concourse-some-other": false,
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

// What the reference does not list, nobody can look up.
func TestReferenceListsEveryStatus(t *testing.T) {
	wanted := append(literals(t, "charm/config", ".Errorf", ".New", "append"), literals(t, "concourse", "func Remedy")...)
	for _, pkg := range []string{"charm", "charm/gpuhealth", "charm/role", "charm/web", "charm/worker", "gpu", "gpu/amd", "concourse/release", "base/resource"} {
		wanted = append(wanted, literals(t, pkg, "Text:", ".block", ".problem", ".say", "remark", "firstRemarks", "Problem:", "Way:",
			"func Remedy", "func impossible", "func malformed", "func ready", "func refusedWorkers")...)
	}
	requireListed(t, statusPage, wanted)
}
