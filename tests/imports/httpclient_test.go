package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
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

func TestOnePackageMakesHTTPClients(t *testing.T) {
	var makers []string
	for _, dir := range []string{"../../internal", "../../src", "../../amdgpu"} {
		require.NoError(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "testutil" {
				return filepath.SkipDir
			}
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err == nil && makesClient(f) {
				makers = append(makers, file)
			}
			return err
		}))
	}
	require.Equal(t, []string{"../../internal/base/httpclient/httpclient.go"}, makers)
}
