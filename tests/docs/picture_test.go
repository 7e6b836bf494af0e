package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the pictures here use of Mermaid's flowcharts: nodes with a text in
// quotes, arrows with or without one, and subgraphs. Its own parser knows far
// more; what it would not take is not in this grammar.
const (
	node  = `([a-z]+)(?:\["[^"]+"\]|\(\["[^"]+"\]\)|\[\("[^"]+"\)\])?`
	arrow = `(?:-->|-\.->|-- "[^"]+" -->|-\. "[^"]+" \.->)`
)

var (
	statement = regexp.MustCompile(`^` + node + `(?: ` + arrow + ` ` + node + `)*$`)
	subgraph  = regexp.MustCompile(`^subgraph [a-z]+ \["[^"]+"\]$`)
	labelled  = regexp.MustCompile(`\b([a-z]+)(?:\["|\(\["|\[\(")([^"]+)"`)
	nodeID    = regexp.MustCompile(`(?:^|> )([a-z]+)`)
)

// pictureProblems are what is wrong with a picture, none twice a line.
func pictureProblems(text string) (problems []string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if lines[0] != "flowchart LR" && lines[0] != "flowchart TB" {
		problems = append(problems, lines[0]+": want a flowchart")
	}
	open, named, used := 0, map[string]string{}, map[string]bool{}
	for _, line := range lines[1:] {
		line = strings.TrimSpace(line)
		switch {
		case subgraph.MatchString(line):
			open++
		case line == "end":
			open--
		case !statement.MatchString(line):
			problems = append(problems, line+": not understood")
		default:
			for _, m := range labelled.FindAllStringSubmatch(line, -1) {
				if was, ok := named[m[1]]; ok && was != m[2] {
					problems = append(problems, line+": "+m[1]+" has another text before")
				}
				named[m[1]] = m[2]
			}
			for _, m := range nodeID.FindAllStringSubmatch(line, -1) {
				used[m[1]] = true
			}
		}
		if open < 0 {
			problems = append(problems, line+": there is nothing to end")
		}
	}
	if open > 0 {
		problems = append(problems, "a subgraph has no end")
	}
	for id := range used {
		if named[id] == "" && len(id) < 3 { // a word is its own text
			problems = append(problems, id+": has no text")
		}
	}
	return problems
}

func TestPicturesAreMermaid(t *testing.T) {
	n := 0
	for page, md := range pages(t) {
		for _, m := range fenced.FindAllStringSubmatch(md, -1) {
			if m[1] == "mermaid" {
				n++
				assert.Empty(t, pictureProblems(m[2]), page)
			}
		}
	}
	require.GreaterOrEqual(t, n, 2)
	for text, want := range map[string]string{
		"flowchart LR\n a[\"x\"] --> b[(\"y\")]\n b -. \"z\" .-> a": "",
		"flowchart LR\n a[\"x\"] -> b":                              "not understood",
		"flowchart LR\n a[\"x] --> b":                               "not understood",
		"flowchart LR\n subgraph s [\"x\"]\n a":                     "no end",
		"flowchart LR\n word\n end":                                 "nothing to end",
		"flowchart LR\n a[\"x\"]\n a[\"y\"] --> a":                  "another text",
		"flowchart LR\n a[\"x\"] --> b":                             "b: has no text",
		"graph\n word":                                              "want a flowchart",
	} {
		got := strings.Join(pictureProblems(text), "\n")
		require.Contains(t, got, want, text)
		require.Equal(t, want == "", got == "", text)
	}
}

// The files and ports in the pictures are those of the pages that are tested
// against the code.
func TestPicturesNameWhatIsThere(t *testing.T) {
	files, security := readFile(t, "docs/reference/files.md"), readFile(t, "docs/explanation/security.md")
	var ports []string
	for _, row := range table(security, "port") {
		ports = append(ports, row[0])
	}
	all := strings.Join(ports, " ")
	for page, md := range pages(t) {
		for _, m := range fenced.FindAllStringSubmatch(md, -1) {
			if m[1] != "mermaid" {
				continue
			}
			for _, path := range regexp.MustCompile(`/etc/[\w./-]+`).FindAllString(m[2], -1) {
				assert.Contains(t, files, "`"+path+"`", page)
			}
			for _, port := range regexp.MustCompile(`\b\d{4}\b`).FindAllString(m[2], -1) {
				assert.Contains(t, all, port, page)
			}
		}
	}
}
