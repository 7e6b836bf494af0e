package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// makesClient reports whether a file makes or uses a client of net/http itself.
func makesClient(f *ast.File) (found bool) {
	own := []string{"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"}
	pointers := map[ast.Expr]bool{} // *http.Client only holds a client
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StarExpr:
			pointers[n.X] = true
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			found = found || ok && x.Name == "http" && slices.Contains(own, n.Sel.Name) && !pointers[n]
		}
		return true
	})
	return found
}

// filesWhere returns the files of the product in folders for which is returns true.
func filesWhere(t *testing.T, is func(*ast.File) bool, folders ...string) (found []string) {
	t.Helper()
	for _, dir := range folders {
		require.NoError(t, filepath.WalkDir("../../"+dir, func(file string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "testutil" {
				return filepath.SkipDir
			}
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err == nil && is(f) {
				found = append(found, strings.TrimPrefix(file, "../../"))
			}
			return err
		}))
	}
	return found
}

func TestOnePackageMakesHTTPClients(t *testing.T) {
	require.Equal(t, []string{"internal/base/httpclient/httpclient.go"}, filesWhere(t, makesClient, "internal", "src", "amdgpu"))
}

// namesCommands reports whether a file words commands of the charm's operator.
func namesCommands(f *ast.File) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			found = found || ok && x.Name == "wellknown" && n.Sel.Name == "Commands"
		case *ast.BasicLit:
			found = found || n.Kind == token.STRING && strings.Contains(n.Value, "juju ")
		}
		return true
	})
	return found
}

// GPUs and engines return facts; the charm, which speaks to its operator, words the commands.
func TestGPUsAndEnginesNameNoCommandOfJuju(t *testing.T) {
	require.Empty(t, filesWhere(t, namesCommands, "amdgpu", "internal/gpu", "internal/oci"))
}

// compilesAtStart reports whether a file compiles a regular expression when its program starts.
func compilesAtStart(f *ast.File) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			found = found || ok && x.Name == "regexp" && n.Sel.Name == "MustCompile"
		}
		return true
	})
	return found
}

// A program starts for each hook and each gpukit run, and uses few of its expressions.
func TestRegularExpressionsAreCompiledWhenUsed(t *testing.T) {
	var linked []string
	for _, p := range packages(t) {
		if p.ImportPath == module+"src/gpukit" || p.ImportPath == module+"src/dispatch" {
			linked = append(linked, p.Deps...)
		}
	}
	require.NotEmpty(t, linked)
	for _, file := range filesWhere(t, compilesAtStart, "internal", "amdgpu") {
		require.NotContains(t, linked, module+path.Dir(file), file)
	}
}

// expressionOf returns the text of a constant expression such as "a" + `b`.
func expressionOf(t *testing.T, n ast.Expr) string {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		require.NoError(t, err)
		return text
	case *ast.BinaryExpr:
		return expressionOf(t, n.X) + expressionOf(t, n.Y)
	}
	return "name" // of a constant, or its quoted text
}

func TestRegularExpressionsAreValid(t *testing.T) {
	found := 0
	filesWhere(t, func(f *ast.File) bool {
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok || len(c.Args) != 1 {
				return true
			}
			if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "New" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "lazyregexp" {
					found++
					_, err := regexp.Compile(expressionOf(t, c.Args[0]))
					require.NoError(t, err)
				}
			}
			return true
		})
		return false
	}, "internal", "src", "amdgpu")
	require.Greater(t, found, 50)
}
