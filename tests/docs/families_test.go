package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// family is a metric as the exporter's own table has it, with its labels.
type family struct {
	name, kind, help string
	labels           []string
	alone            bool // without the labels of a GPU
}

func (f *family) add(labels ...string) {
	for _, l := range labels {
		if !slices.Contains(f.labels, l) {
			f.labels = append(f.labels, l)
		}
	}
}

// families are in the order of the exporter's constants.
func families(t *testing.T) []*family {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "internal/exporter/*.go"))
	require.NoError(t, err)
	var trees []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		trees = append(trees, tree)
	}
	var order []string
	byConst := map[string]*family{}
	for _, tree := range trees {
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				if first, ok := n.Specs[0].(*ast.ValueSpec); ok && n.Tok == token.CONST && isIdent(first.Type, "metric") {
					for _, s := range n.Specs {
						order = append(order, s.(*ast.ValueSpec).Names[0].Name)
					}
				}
			case *ast.KeyValueExpr: // temperature: g("rocm_gpu_temperature", "Temperature …")
				key, _ := n.Key.(*ast.Ident)
				call, _ := n.Value.(*ast.CallExpr)
				if key == nil || call == nil || len(call.Args) != 2 {
					break
				}
				for fun, kind := range map[string]string{"g": "gauge", "c": "counter"} {
					if isIdent(call.Fun, fun) {
						byConst[key.Name] = &family{name: text(call.Args[0]), kind: kind, help: text(call.Args[1])}
					}
				}
			}
			return true
		})
	}
	for _, tree := range trees {
		ast.Inspect(tree, func(n ast.Node) bool { addLabels(byConst, n); return true })
	}
	var out []*family
	for _, name := range order {
		if f := byConst[name]; f != nil {
			out = append(out, f)
		}
	}
	require.Len(t, out, len(byConst), "each metric has a constant")
	require.Greater(t, len(out), 20)
	return out
}

// addLabels takes the labels that stand in one expression with a metric: in
// put(rasErrors, n, label("block", b)) or {metric: voltage, name: "rail"}.
func addLabels(byConst map[string]*family, n ast.Node) {
	var f *family
	var labels []string
	switch n := n.(type) {
	case *ast.CallExpr:
		for _, a := range n.Args {
			if id, ok := a.(*ast.Ident); ok && byConst[id.Name] != nil {
				f = byConst[id.Name]
			}
			if c, ok := a.(*ast.CallExpr); ok && len(c.Args) > 0 && (isIdent(c.Fun, "label") || isIdent(c.Fun, "index")) {
				labels = append(labels, text(c.Args[0]))
			}
		}
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok && f != nil && sel.Sel.Name == "NewSeries" {
			f.alone = true
		}
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok || f == nil && !isIdent(kv.Key, "metric") {
				continue
			}
			id, _ := kv.Value.(*ast.Ident)
			switch {
			case isIdent(kv.Key, "metric") && id != nil:
				f = byConst[id.Name]
			case isIdent(kv.Key, "name"):
				labels = append(labels, text(kv.Value))
			case isIdent(kv.Key, "array") && id != nil:
				labels = append(labels, map[string][]string{"instances": {"instance"}, "links": {"link"}, "byPartition": {"instance", "partition"}}[id.Name]...)
			}
		}
	}
	if f != nil {
		f.add(labels...)
	}
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}
