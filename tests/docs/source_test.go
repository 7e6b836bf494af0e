package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hole stands in a pattern for what is known only at run time.
const hole = "\uE000"

// source is what the charm's Go code says in string expressions, as patterns:
// constants are filled in, other values and verbs of formats are holes.
type source struct {
	consts map[string]ast.Expr // "concourse.EnvFile"
	files  []sourceFile
}

type sourceFile struct {
	pkg  string
	tree *ast.File
}

// packages whose texts reach a user of the charm.
var packages = []string{"charm", "charm/cli", "config", "concourse", "rocm", "nvidia", "gpu", "resource", "cdi", "oci", "oci/rawjson", "lease", "postgres", "host", "juju", "agreed"}

func readSource(t *testing.T) *source {
	t.Helper()
	s := &source{consts: map[string]ast.Expr{}}
	for _, pkg := range packages {
		names, err := filepath.Glob(filepath.Join(root, "internal", pkg, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, names, pkg)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			s.add(path.Base(pkg), tree)
		}
	}
	return s
}

func (s *source) add(pkg string, tree *ast.File) {
	s.files = append(s.files, sourceFile{pkg, tree})
	for _, d := range tree.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for i, value := range v.Values {
				s.consts[pkg+"."+v.Names[i].Name] = value
			}
		}
	}
}

// each calls f for every expression of every file.
func (s *source) each(f func(pkg string, n ast.Node) bool) {
	for _, file := range s.files {
		ast.Inspect(file.tree, func(n ast.Node) bool { return f(file.pkg, n) })
	}
}

// patterns are all string expressions, none twice.
func (s *source) patterns() []string {
	seen, filled := map[string]bool{}, map[ast.Expr]bool{}
	var out []string
	s.each(func(pkg string, n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok || filled[e] {
			return true
		}
		if c, ok := n.(*ast.CallExpr); ok {
			if i, _ := format(c); i >= 0 { // the call is the text, its format alone is not
				filled[c.Args[i]] = true
			}
		}
		p := s.eval(pkg, e)
		if p != "" && strings.Trim(p, hole) != "" && !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
		_, sum := n.(*ast.BinaryExpr)
		return !sum || strings.Trim(p, hole) == "" // its parts alone are no text
	})
	return out
}

// eval is an expression as a pattern; a single hole where nothing is known.
func (s *source) eval(pkg string, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			if text, err := strconv.Unquote(e.Value); err == nil {
				return verbs(text, nil)
			}
		}
		if e.Kind == token.INT {
			return e.Value
		}
	case *ast.ParenExpr:
		return s.eval(pkg, e.X)
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return s.eval(pkg, e.X) + s.eval(pkg, e.Y)
		}
	case *ast.Ident:
		if value, ok := s.consts[pkg+"."+e.Name]; ok {
			return s.eval(pkg, value)
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			if value, ok := s.consts[x.Name+"."+e.Sel.Name]; ok {
				return s.eval(x.Name, value)
			}
		}
	case *ast.CallExpr:
		return s.call(pkg, e)
	}
	return hole
}

// call knows path.Join, and every call whose format has a verb for each of
// the arguments after it.
func (s *source) call(pkg string, c *ast.CallExpr) string {
	args := make([]string, len(c.Args))
	for i, a := range c.Args {
		args[i] = s.eval(pkg, a)
	}
	if f, ok := c.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Join" && len(args) > 1 && !strings.Contains(f.X.(*ast.Ident).Name, "strings") {
		return strings.Join(args, "/")
	}
	if i, text := format(c); i >= 0 {
		return verbs(text, args[i+1:])
	}
	return hole
}

// format finds the argument that is a format, -1 where none is.
func format(c *ast.CallExpr) (at int, text string) {
	for i, a := range c.Args {
		if lit, ok := a.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, "%") {
				return i, text
			}
		}
	}
	return -1, ""
}

var verb = regexp.MustCompile(`%[#+\-0]*[0-9]*(\.[0-9]+)?[a-zA-Z%]`)

// verbs puts the arguments that are known in place of a format's verbs, and
// holes in place of the others.
func verbs(format string, args []string) string {
	n := 0
	return verb.ReplaceAllStringFunc(format, func(v string) string {
		if v == "%%" {
			return "%"
		}
		n++
		if n > len(args) || strings.Contains(args[n-1], hole) || v != "%s" && v != "%d" {
			return hole
		}
		return args[n-1]
	})
}

func TestEvalFillsInConstantsAndLeavesHoles(t *testing.T) {
	tree, err := parser.ParseFile(token.NewFileSet(), "x.go", `package p
const a = "/x"
const b = a + "/y"
var _ = f("%s has %d%% of %q in %s", b, n, m, "z")
var _ = path.Join(b, name)
`, 0)
	require.NoError(t, err)
	s := &source{consts: map[string]ast.Expr{}}
	s.add("p", tree)
	got := s.patterns()
	require.Contains(t, got, "/x/y has "+hole+"% of "+hole+" in z")
	require.Contains(t, got, "/x/y/"+hole)
}
