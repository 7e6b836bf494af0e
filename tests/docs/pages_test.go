package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// root is the repository's, seen from this package.
const root = "../.."

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(data)
}

// pages returns README.md, CONTRIBUTING.md, RELEASING.md, the READMEs of folders, and all of
// docs/, by name below the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", ".github/RELEASING.md", "terraform/README.md", databagsPage, rulesPage} {
		all[name] = readFile(t, name)
	}
	products, err := filepath.Glob(filepath.Join(root, "src/*/README.md"))
	require.NoError(t, err)
	for _, p := range products {
		name, err := filepath.Rel(root, p)
		require.NoError(t, err)
		all[name] = readFile(t, name)
	}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(p) != ".md" {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err == nil {
			all[name] = readFile(t, name)
		}
		return err
	}))
	return all
}

var (
	codeSpan = regexp.MustCompile("``\\s?(.+?)\\s?``|`([^`]+)`")
	fence    = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$")
)

// spans are the inline code of a piece of Markdown.
func spans(md string) (out []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(md, -1) {
		out = append(out, m[1]+m[2])
	}
	return out
}

// code is everything on a page that is set as code: spans and the lines of
// blocks, fenced or indented by four.
func code(md string) []string {
	var out []string
	for _, block := range fence.FindAllStringSubmatch(md, -1) {
		out = append(out, strings.Split(strings.ReplaceAll(block[1], "\\\n", " "), "\n")...)
	}
	prose := fence.ReplaceAllString(md, "")
	for line := range strings.Lines(prose) {
		if rest, ok := strings.CutPrefix(line, "    "); ok {
			out = append(out, strings.TrimSpace(rest))
		} else {
			out = append(out, spans(line)...)
		}
	}
	return out
}

// table is the rows, without the heading, of the tables with this first heading;
// each row is its cells.
func table(md, heading string) (rows [][]string) {
	in := false
	for line := range strings.Lines(md) {
		line = strings.TrimSpace(line)
		for strings.Contains(line, " | | ") { // an empty cell
			line = strings.Replace(line, " | | ", " |  | ", 1)
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			in = false
		case cells[0] == heading:
			in = true
		case in && !strings.HasPrefix(line, "|--"):
			rows = append(rows, cells)
		}
	}
	return rows
}

// column is the inline code in the first cells of those rows.
func column(md, heading string) (texts []string) {
	for _, row := range table(md, heading) {
		texts = append(texts, spans(row[0])...)
	}
	return texts
}

// item matches an item of a list that explains pieces of code: "- `a`, `b`: meaning". They
// may also be on lines of their own, and a piece in parentheses may follow them.
var item = regexp.MustCompile("(?m)^- ((?:`[^`\n]+`(?:, |<br>)?)+)(?: \\([^)\n]*\\))?(?::(.*)|)$")

// terms returns what the lists of a piece of Markdown explain.
func terms(md string) (names []string) {
	for _, m := range item.FindAllStringSubmatch(md, -1) {
		names = append(names, spans(m[1])...)
	}
	return names
}

// maxWords is the number of words that README.md and the pages of docs may have together, without
// the generated tables: a new metric has its row.
const maxWords = 35470

var generated = regexp.MustCompile(`(?s)<!-- made: .*?<!-- end -->`)

func TestPagesFitTheirBudget(t *testing.T) {
	words := 0
	for page, md := range pages(t) {
		if page == "README.md" || strings.HasPrefix(page, "docs/") {
			words += len(strings.Fields(generated.ReplaceAllString(md, "")))
		}
	}
	t.Logf("%d words", words)
	require.LessOrEqual(t, words, maxWords, "cut what is said twice")
}

// maxLines is the number of lines that a how-to page may have.
const maxLines = 120

func TestHowToPagesAreShort(t *testing.T) {
	for page, md := range pages(t) {
		if strings.HasPrefix(page, "docs/how-to/") {
			assert.LessOrEqual(t, strings.Count(md, "\n"), maxLines, page)
		}
	}
}

// A variable of Concourse that a page names is one of its releases', or ends a list of names.
func TestVariablesOfConcourseAreItsReleases(t *testing.T) {
	known := ""
	lists, err := filepath.Glob(filepath.Join(root, "internal/concourse/testdata/variables-*/*"))
	require.NoError(t, err)
	for _, list := range lists {
		data, err := os.ReadFile(list)
		require.NoError(t, err)
		known += string(data)
	}
	n := 0
	for page, md := range pages(t) {
		prefix := ""
		for _, m := range regexp.MustCompile("(?m)`(CONCOURSE_[A-Z_]+|\\.\\.\\._[A-Z_]+)[`=]|^(CONCOURSE_[A-Z_]+)=").FindAllStringSubmatch(md, -1) {
			name := m[1] + m[2]
			if rest, ok := strings.CutPrefix(name, "..."); ok {
				assert.Regexp(t, "(?m)\\b"+prefix+"[A-Z_]*"+rest+"\\b", known, "%s: %s%s", page, prefix, name)
				continue
			}
			prefix = regexp.MustCompile("^CONCOURSE_[A-Z]+(?:_SSM|_SECRETSMANAGER)?").FindString(name)
			assert.Regexp(t, "(?m)\\b"+name+"\\b", known, page)
			n++
		}
	}
	require.Greater(t, n, 15)
}

// withSection is the page with another text between the marks of a section.
func withSection(t *testing.T, page, section, text string) string {
	t.Helper()
	begin, end := "<!-- made: "+section+" -->\n", "<!-- end -->\n"
	before, rest, ok := strings.Cut(page, begin)
	require.True(t, ok, begin)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, end)
	return before + begin + text + end + after
}

func TestTableFindsRowsByHeading(t *testing.T) {
	md := "| a | b |\n|---|---|\n| `x` | y |\n\ntext\n\n| c |\n|---|\n| z |\n"
	require.Equal(t, [][]string{{"`x`", "y"}}, table(md, "a"))
	require.Equal(t, [][]string{{"x", "", "", "y"}}, table("| a |\n|---|\n| x | | | y |\n", "a"))
	require.Equal(t, [][]string{{"z"}}, table(md, "c"))
	require.Equal(t, []string{"a `b` c", "d"}, spans("x ``a `b` c`` y `d`"))
	require.Equal(t, []string{"a", "b", "c"}, terms("- `a`<br>`b` (0600): x `y`\n- `c`\n- text: `d`\n"))
}

func TestClonesAreOfTheSource(t *testing.T) {
	var meta struct{ Source string }
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "metadata.yaml")), &meta))
	for page, md := range pages(t) {
		for _, line := range blockLines(md) {
			if address, ok := strings.CutPrefix(line, "git clone https://"); ok {
				require.Equal(t, meta.Source, "https://"+address, page)
			}
		}
	}
}
