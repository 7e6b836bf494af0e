// Package style measures the comments, lines, texts and tests of the project, and compares the
// shares with the limits of STYLE.md.
package style

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The limits. A limit is lowered when the tree is better, and never raised.
const (
	maxWeakVerbs = 0.03  // share of comments of functions and types that begin "X is" or "X reports"
	maxLong      = 0.001 // share of lines with more than 120 columns
	minTests     = 0.3   // lines of tests for each line of a package with more than 300
	maxWords     = 20.0  // words of the table below in 10,000 words of comments
	maxTextWords = 15.0  // the same in 10,000 words of texts for users
)

// weakVerb matches a comment that begins with its name and describes instead of acting.
var weakVerb = regexp.MustCompile(`^\S+ (is|are|was|says|tells)\b`)

// replaced matches words that STYLE.md replaces. It has only the unambiguous ones.
var replaced = regexp.MustCompile(`(?i)\b(says?|tells?|told|where|of (its|their|his|yours?) own|else|nobody|somebody|whose|is no|there is none|that of|those of|anew|besides|stands?( in)?|is to be|has to|have to|gone|brought|brings|meanwhile)\b`)

// standIn is a noun that replaced would match.
var standIn = regexp.MustCompile(`(?i)\bstand-ins?\b`)

var word = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*`)

// file is one Go file.
type file struct {
	path string
	text string
	ast  *ast.File
}

// files returns the Go files of the product and of test support.
func files(t *testing.T) []file {
	t.Helper()
	return goFiles(t, []string{"amdgpu", "internal", "src", "tools", "templates", "pipelines"},
		func(p string) bool { return !strings.HasSuffix(p, "_test.go") })
}

// testFiles returns the Go files of tests.
func testFiles(t *testing.T) []file {
	t.Helper()
	return goFiles(t, []string{"amdgpu", "internal", "src", "tools", "templates", "pipelines", "tests"},
		func(p string) bool { return strings.HasSuffix(p, "_test.go") || strings.HasPrefix(p, "../../tests/") })
}

func goFiles(t *testing.T, folders []string, wanted func(path string) bool) (all []file) {
	t.Helper()
	for _, top := range folders {
		require.NoError(t, filepath.WalkDir(filepath.Join("../..", top), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || !wanted(p) {
				return err
			}
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			a, err := parser.ParseFile(token.NewFileSet(), p, data, parser.ParseComments)
			all = append(all, file{p, string(data), a})
			return err
		}))
	}
	require.Greater(t, len(all), 300)
	return all
}

// docs returns the comments of functions, methods and types of a file.
func docs(a *ast.File) (out []string) {
	for _, d := range a.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc != nil {
				out = append(out, d.Doc.Text())
			}
		case *ast.GenDecl:
			if d.Tok != token.TYPE {
				continue
			}
			if d.Doc != nil {
				out = append(out, d.Doc.Text())
			}
			for _, s := range d.Specs {
				if s := s.(*ast.TypeSpec); s.Doc != nil {
					out = append(out, s.Doc.Text())
				}
			}
		}
	}
	return out
}

// reportWorst logs the folders with the most findings, so that a failure names a place.
func reportWorst(t *testing.T, found map[string]int) {
	for folder, n := range found {
		t.Logf("%4d %s", n, folder)
	}
}

func TestCommentsBeginWithAVerb(t *testing.T) {
	weak, all, found := 0, 0, map[string]int{}
	for _, f := range files(t) {
		for _, d := range docs(f.ast) {
			all++
			if weakVerb.MatchString(d) {
				weak++
				found[filepath.Dir(f.path)]++
			}
		}
	}
	reportWorst(t, found)
	t.Logf("%d of %d comments of functions and types: %.3f", weak, all, float64(weak)/float64(all))
	require.LessOrEqual(t, float64(weak)/float64(all), maxWeakVerbs)
}

func TestLinesHaveAtMost120Columns(t *testing.T) {
	long, all, found := 0, 0, map[string]int{}
	for _, f := range files(t) {
		for line := range strings.Lines(f.text) {
			all++
			if len([]rune(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    "))) > 120 {
				long++
				found[filepath.Dir(f.path)]++
			}
		}
	}
	reportWorst(t, found)
	t.Logf("%d of %d lines: %.4f", long, all, float64(long)/float64(all))
	require.LessOrEqual(t, float64(long)/float64(all), maxLong)
}

func TestCommentsUseTheWordsOfTheStyle(t *testing.T) {
	var m measure
	for _, f := range files(t) {
		m.addComments(f)
	}
	m.require(t, maxWords)
}

func TestTestsUseTheWordsOfTheStyle(t *testing.T) {
	var m measure
	for _, f := range testFiles(t) {
		m.addComments(f)
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				m.add(f.path, capital.ReplaceAllString(fn.Name.Name, " $0"))
			}
		}
	}
	m.require(t, maxWords)
}

var capital = regexp.MustCompile(`[A-Z][a-z]`)

// texts are files with words for users apart from Go code.
var texts = []string{"config.yaml", "actions.yaml", "metadata.yaml", "templates/*.*", "src/*_alert_rules/*.yaml"}

// Errors, statuses and help are strings of several words. SQL statements have no words for users.
func TestTextsUseTheWordsOfTheStyle(t *testing.T) {
	var m measure
	for _, f := range files(t) {
		if strings.Contains(f.path, "/testutil/") || strings.HasPrefix(f.path, "../../tools/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec, *ast.StructType:
				return false
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				if n.Kind == token.STRING && err == nil && strings.Contains(strings.TrimSpace(text), " ") &&
					!strings.Contains(strings.ToLower(text), "where rel") && !strings.Contains(text, "pg_") {
					m.add(f.path, text)
				}
			}
			return true
		})
	}
	for _, pattern := range texts {
		names, err := filepath.Glob(filepath.Join("../..", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, names, pattern)
		for _, name := range names {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			if filepath.Ext(name) != ".go" {
				m.add(name, string(data))
			}
		}
	}
	m.require(t, maxTextWords)
}

// measure counts words that STYLE.md replaces.
type measure struct {
	hits, words int
	found       map[string]int // by folder
}

func (m *measure) add(path, text string) {
	text = standIn.ReplaceAllString(text, "")
	n := len(replaced.FindAllString(text, -1))
	m.hits, m.words = m.hits+n, m.words+len(word.FindAllString(text, -1))
	if m.found == nil {
		m.found = map[string]int{}
	}
	if n > 0 {
		m.found[filepath.Dir(path)] += n
	}
}

func (m *measure) addComments(f file) {
	for _, g := range f.ast.Comments {
		m.add(f.path, g.Text())
	}
}

func (m *measure) require(t *testing.T, limit float64) {
	t.Helper()
	reportWorst(t, m.found)
	share := 10000 * float64(m.hits) / float64(m.words)
	t.Logf("%d in %d words: %.1f in 10,000", m.hits, m.words, share)
	require.LessOrEqual(t, share, limit)
}

func TestFilesHaveAtMost400Lines(t *testing.T) {
	for _, f := range files(t) {
		require.LessOrEqual(t, strings.Count(f.text, "\n"), 400, f.path)
	}
}

func TestFunctionsHaveAtMostThreeResults(t *testing.T) {
	var found []string
	for _, f := range files(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Type.Results.NumFields() > 3 {
				found = append(found, f.path+": "+fn.Name.Name)
			}
		}
	}
	require.Empty(t, found, "more results are a struct")
}

// A newcomer who changes a package runs its own tests first.
func TestPackagesHaveTestsBesideTheCode(t *testing.T) {
	product, tests := map[string]int{}, map[string]int{}
	for _, top := range []string{"internal", "src"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("../..", top), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.Contains(p, "/testutil/") {
				return err
			}
			data, err := os.ReadFile(p)
			lines := product
			if strings.HasSuffix(p, "_test.go") {
				lines = tests
			}
			lines[filepath.Dir(p)] += strings.Count(string(data), "\n")
			return err
		}))
	}
	for folder, n := range product {
		if n > 300 && float64(tests[folder]) < minTests*float64(n) {
			t.Errorf("%s: %d lines with %d lines of tests", folder, n, tests[folder])
		}
	}
}
