package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlug = regexp.MustCompile(`[^\pL\d _-]`)
)

func TestLinksResolve(t *testing.T) {
	for name, md := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(md, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			to := name
			if file != "" {
				to = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, to)); !assert.NoError(t, err, "%s links to %s", name, m[1]) || anchor == "" {
				continue
			}
			assert.Contains(t, slugs(readFile(t, to)), anchor, "%s links to %s", name, m[1])
		}
	}
}

// slugs are a page's headings as GitHub makes anchors of them.
func slugs(md string) (out []string) {
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(md, ""), -1) {
		out = append(out, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

// indexed matches an entry of a list in docs/index.md: title and page. tools/site makes the
// menu of the site of them.
var indexed = regexp.MustCompile(`(?m)^- \[([^\]]+)\]\(([^)]+)\)`)

func TestEveryPageIsInTheIndexByItsTitle(t *testing.T) {
	all := pages(t)
	var listed, there []string
	for _, m := range indexed.FindAllStringSubmatch(all["docs/index.md"], -1) {
		listed = append(listed, m[2])
		title, _, _ := strings.Cut(strings.TrimPrefix(all["docs/"+m[2]], "# "), "\n")
		assert.Equal(t, title, m[1], m[2])
	}
	for name := range all {
		if rest, ok := strings.CutPrefix(name, "docs/"); ok && rest != "index.md" {
			there = append(there, rest)
		}
	}
	require.ElementsMatch(t, there, listed)
}

func TestListedFoldersAreFromTheTree(t *testing.T) {
	var listed, there []string
	_, page, ok := strings.Cut(readFile(t, "CONTRIBUTING.md"), "### Folders of internal\n")
	require.True(t, ok)
	for _, row := range table(page, "folder") {
		listed = append(listed, spans(row[0])[0])
	}
	entries, err := os.ReadDir(filepath.Join(root, "internal"))
	require.NoError(t, err)
	for _, e := range entries {
		there = append(there, "internal/"+e.Name())
	}
	require.LessOrEqual(t, len(there), 10, "a new package belongs into one of the folders")
	require.ElementsMatch(t, append(there, "src/gpu-baseline", "tools/charmpack", "templates", "pipelines"), listed)
}

func TestEveryFolderOfTestsIsInItsReadme(t *testing.T) {
	page := readFile(t, "tests/README.md")
	entries, err := os.ReadDir(filepath.Join(root, "tests"))
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() {
			require.Regexp(t, `(^|\W)`+e.Name()+`\W`, page)
		}
	}
}

func TestNamedProgramsAreFromTheMakefile(t *testing.T) {
	made := regexp.MustCompile(`(?m)^PROGRAMS := (.+)$`).FindStringSubmatch(readFile(t, "Makefile"))
	require.NotNil(t, made)
	listed := regexp.MustCompile(`(?s)The charm ships (.+?)\n\n`).FindStringSubmatch(readFile(t, "docs/explanation/architecture.md"))
	require.NotNil(t, listed)
	require.ElementsMatch(t, strings.Fields(made[1]), spans(listed[1]))
}

// A blank line within a table ends it, and the rows after it show as text.
func TestTablesAreWhole(t *testing.T) {
	separator := regexp.MustCompile(`^\|[ :|-]+\|$`)
	for name, md := range pages(t) {
		lines := strings.Split(fence.ReplaceAllString(md, ""), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "|") && (i == 0 || !strings.HasPrefix(lines[i-1], "|")) {
				require.Regexp(t, separator, lines[i+1], "%s: no table begins with this row: %s", name, line)
			}
		}
	}
}
