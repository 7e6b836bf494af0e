package docs

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const wrapperPage = "docs/reference/wrapper.md"

func ofWrapper(pkg string) bool {
	return slices.Contains([]string{"oci", "cdispec", "visible", "edits", "rawjson", "lease"}, pkg)
}

// wrapperPatterns are what the code prints, with what it puts together piece
// by piece: an entry of a task's variable and what is wrong with it.
func wrapperPatterns(t *testing.T, s *source) []string {
	t.Helper()
	patterns := s.patterns()
	require.Subset(t, patterns, []string{hole + " " + hole})
	const holders = "; " + hole + " is held by container " + hole + " since " + hole + " UTC (" + hole + "); run the task again"
	return append(patterns, "cannot lease "+hole+": "+hole+" of "+hole+" are free"+holders+" later, or let tasks queue at the web (limit-gpu-tasks), or ask for fewer by GPU_COUNT",
		"cannot use "+hole+" in container "+hole+" again: its task has ended, and since then "+holders[2:],
		"cannot give the task the GPUs of "+hole+"="+hole+": "+hole+" "+hole+"; there are: "+hole,
		"unknown flag "+hole, hole+" is no GPU that this unit gives", hole+" is not a whole number", "folders: names: "+hole+" "+hole)
}

func TestQuotedRefusalsAreTheWrappers(t *testing.T) {
	m := newMatcher(wrapperPatterns(t, readSource(t)))
	for _, name := range []string{wrapperPage, "docs/how-to/choose-gpus-in-a-task.md", "docs/how-to/folders-for-tasks.md"} {
		md := readFile(t, name)
		rows := append(table(md, "message"), table(md, "reason")...)
		require.NotEmpty(t, rows, name)
		for _, row := range rows {
			for _, text := range spans(row[0]) {
				assert.True(t, m.prints(text), "%s: the wrapper prints nothing like: %s", name, text)
			}
		}
	}
}

// A build's output shows one of these texts and nothing else.
func TestWrapperPageListsEveryRefusal(t *testing.T) {
	page := readFile(t, wrapperPage)
	var listed []string
	for _, row := range append(table(page, "message"), table(page, "reason")...) {
		listed = append(listed, spans(row[0])...)
	}
	texts := strings.Join(listed, "\n")
	s := readSource(t)
	wanted := s.refusals()
	require.Greater(t, len(wanted), 80)
	for _, p := range wanted {
		var re []string
		for part := range strings.SplitSeq(p, hole) {
			re = append(re, regexp.QuoteMeta(part))
		}
		assert.Regexp(t, strings.Join(re, ".*"), texts, "%s lacks %s", wrapperPage, strings.ReplaceAll(p, hole, "<...>"))
	}
}

// refusals are the patterns of the wrapper's errors, and of the reasons that
// two of its functions return as text.
func (s *source) refusals() (out []string) {
	s.each(func(pkg string, n ast.Node) bool {
		if !ofWrapper(pkg) {
			return false
		}
		var texts []ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Errorf", "New", "Sprintf"}, f.Sel.Name) {
				texts = append(texts, n)
				if f.Sel.Name == "New" && len(n.Args) == 1 {
					texts = n.Args
				}
			}
		case *ast.FuncDecl:
			if n.Name.Name == "FolderNameProblem" || n.Name.Name == "probe" {
				ast.Inspect(n, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.ReturnStmt:
						texts = append(texts, n.Results...)
					case *ast.SendStmt:
						texts = append(texts, n.Value)
					}
					return true
				})
			}
		}
		for _, e := range texts {
			p := s.eval(pkg, e)
			p = strings.TrimSuffix(p, " [container "+hole+"]") // said once on the page
			if letters.MatchString(p) && strings.Contains(p, " ") {
				out = append(out, p)
			}
		}
		return true
	})
	return out
}

func TestWrapperPageListsTheFieldsOfItsConfig(t *testing.T) {
	var fields []string
	prefix := ""
	for line := range strings.Lines(readFile(t, "internal/oci/config.go") + readFile(t, "internal/oci/leases.go")) {
		if m := regexp.MustCompile(`^type (Folders|Leases) `).FindStringSubmatch(line); m != nil {
			prefix = strings.ToLower(m[1]) + "."
		}
		if m := regexp.MustCompile("`json:\"([a-z_]+)").FindStringSubmatch(line); m != nil {
			fields = append(fields, prefix+m[1])
		}
	}
	var listed []string
	for _, row := range table(readFile(t, wrapperPage), "field") {
		listed = append(listed, spans(row[0])...)
	}
	require.ElementsMatch(t, fields, listed)

	var variables, named []string
	for _, m := range regexp.MustCompile(`Env[A-Z]\w+ = "(\w+)"`).FindAllStringSubmatch(readFile(t, "internal/oci/config.go"), -1) {
		variables = append(variables, m[1])
	}
	for _, row := range table(readFile(t, wrapperPage), "variable") {
		named = append(named, spans(row[0])...)
	}
	require.ElementsMatch(t, variables, named)
}
