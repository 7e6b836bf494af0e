package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// literals returns the string literals of the Go code in a folder of internal, without
// tests. A folder with /... at its end includes the folders below it: all of them, or only
// in fields, calls and functions of the given names. They are taken as they stand; nothing
// is looked up or computed.
func literals(t *testing.T, folder string, names ...string) (out []string) {
	t.Helper()
	folder, deep := strings.CutSuffix(folder, "/...")
	top := filepath.Join(root, "internal", folder)
	require.NoError(t, filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && name != top && !deep {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err == nil {
			below(file, names, func(text string) { out = append(out, text) })
		}
		return err
	}))
	require.NotEmpty(t, out, folder)
	return out
}

func below(top ast.Node, names []string, f func(text string)) {
	ast.Inspect(top, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && len(names) == 0 {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				f(text)
			}
		}
		if slices.Contains(names, nameOf(n)) {
			below(n, nil, f)
			return false
		}
		return true
	})
}

// nameOf is what a field, a call, a method's call or a function is called: "Text:",
// "problem", ".problem", "func Remedy".
func nameOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		return nameOf(n.Key) + ":"
	case *ast.CallExpr:
		return nameOf(n.Fun)
	case *ast.FuncDecl:
		return "func " + n.Name.Name
	case *ast.SelectorExpr:
		return "." + n.Sel.Name
	case *ast.Ident:
		return n.Name
	}
	return ""
}

var (
	verb   = regexp.MustCompile(`%[#+\-0]*[0-9]*(?:\.[0-9]+)?[a-zA-Z]`)
	phrase = regexp.MustCompile(`\pL{2}.* .*\pL{2}`)
)

// pieces are what is between the verbs of literals.
func pieces(literals []string) (out []string) {
	for _, text := range literals {
		for _, p := range verb.Split(text, -1) {
			if strings.TrimSpace(p) != "" {
				out = append(out, strings.ReplaceAll(p, "%%", "%"))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// made reports whether a text is a row of whole pieces and of values. White space in it
// belongs to pieces, or is beside a piece that is a phrase.
func made(text string, pieces []string, value *regexp.Regexp) bool {
	var fit []string
	for _, p := range pieces {
		if strings.Contains(text, p) {
			fit = append(fit, p)
			if phrase.MatchString(p) {
				fit = append(fit, " "+p, p+" ")
			}
		}
	}
	reached := make([]bool, len(text)+1)
	reached[0] = true
	for i := range text {
		if !reached[i] {
			continue
		}
		reached[i+len(value.FindString(text[i:]))] = true
		for _, p := range fit {
			if strings.HasPrefix(text[i:], p) {
				reached[i+len(p)] = true
			}
		}
	}
	return reached[len(text)]
}

// requireListed requires that the lists of a page have each literal that is a
// phrase, what is between its verbs in this order.
func requireListed(t *testing.T, page string, literals []string) {
	t.Helper()
	listed := strings.Join(regexp.MustCompile(`(?m)^- .*$`).FindAllString(readFile(t, page), -1), "\n")
	for _, text := range literals {
		if !phrase.MatchString(text) {
			continue
		}
		parts := verb.Split(strings.TrimSpace(text), -1)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(strings.ReplaceAll(parts[i], "%%", "%"))
		}
		assert.True(t, regexp.MustCompile(strings.Join(parts, ".*")).MatchString(listed), "%s lacks %q", page, text)
	}
}
