// Package style measures the comments, lines and tests of all Go code that is not a test, and
// compares the shares with the limits of STYLE.md.
package style

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The limits. A limit is lowered when the tree is better, and never raised.
const (
	maxWeakVerbs = 0.03  // share of comments of functions and types that begin "X is" or "X tells"
	maxLong      = 0.001 // share of lines with more than 120 columns
	minTests     = 0.3   // lines of tests for each line of a package with more than 300
	maxWords     = 20.0  // words of the table below in 10,000 words of comments
)

// weakVerb matches a comment that begins with its name and describes instead of acting.
var weakVerb = regexp.MustCompile(`^\S+ (is|are|was|says|tells)\b`)

// replaced matches words that STYLE.md replaces. It has only those that are unambiguous
// in a comment.
var replaced = regexp.MustCompile(`(?i)\b(says?|tells?|told|where|of (its|their|his|yours?) own|else|nobody|somebody|whose|is no|there is none|that of|those of|anew|besides|stands?( in)?|is to be|has to|have to|gone|brought|brings|meanwhile)\b`)

var word = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*`)

// file is one Go file of the product or of test support.
type file struct {
	path string
	text string
	ast  *ast.File
}

func files(t *testing.T) (all []file) {
	t.Helper()
	for _, top := range []string{"amdgpu", "internal", "src", "tools", "templates", "pipelines"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("../..", top), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
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
	hits, words, found := 0, 0, map[string]int{}
	for _, f := range files(t) {
		for _, g := range f.ast.Comments {
			text := g.Text()
			n := len(replaced.FindAllString(text, -1))
			hits, words = hits+n, words+len(word.FindAllString(text, -1))
			found[filepath.Dir(f.path)] += n
		}
	}
	reportWorst(t, found)
	t.Logf("%d in %d words of comments: %.0f in 10,000", hits, words, 10000*float64(hits)/float64(words))
	require.LessOrEqual(t, 10000*float64(hits)/float64(words), maxWords)
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
