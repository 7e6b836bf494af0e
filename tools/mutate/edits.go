package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// edit describes one small change of a file that some test should notice.
type edit struct {
	file       string
	line       int
	kind       string
	start, end int // bytes of the file that text replaces
	was, text  string
}

// Kinds of edits.
const (
	boundary  = "boundary"  // < becomes <=
	negation  = "negation"  // == becomes !=, && becomes ||, a condition its opposite
	statement = "statement" // a call, an assignment or a jump is dropped
	threshold = "constant"  // a number in a comparison or a constant is larger
)

var kinds = []string{boundary, negation, statement, threshold}

var (
	boundaries = map[token.Token]token.Token{
		token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	}
	opposites = map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	}
)

// finder collects the edits of one file.
type finder struct {
	file  string
	src   string
	fset  *token.FileSet
	edits []edit
}

// editsOf returns all edits of a file, in its order.
func editsOf(file string, src []byte) ([]edit, error) {
	f := &finder{file: file, src: string(src), fset: token.NewFileSet()}
	tree, err := parser.ParseFile(f.fset, file, src, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		f.visit(n)
		return true
	})
	return f.edits, nil
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *finder) text(n ast.Node) string { return f.src[f.offset(n.Pos()):f.offset(n.End())] }

func (f *finder) add(kind string, from, to token.Pos, text string) {
	start, end := f.offset(from), f.offset(to)
	f.edits = append(f.edits, edit{f.file, f.fset.Position(from).Line, kind, start, end, f.src[start:end], text})
}

func (f *finder) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.operator(n)
	case *ast.IfStmt:
		f.condition(n.Cond)
	case *ast.GenDecl:
		if n.Tok == token.CONST {
			f.numbers(n)
		}
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	}
}

func (f *finder) operator(n *ast.BinaryExpr) {
	end := n.OpPos + token.Pos(len(n.Op.String()))
	if to, ok := boundaries[n.Op]; ok {
		f.add(boundary, n.OpPos, end, to.String())
		f.numbers(n)
	}
	if to, ok := opposites[n.Op]; ok {
		f.add(negation, n.OpPos, end, to.String())
	}
}

// condition negates a condition without an operator that has its own edit.
func (f *finder) condition(e ast.Expr) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			f.add(negation, e.Pos(), e.X.Pos(), "")
		}
	default:
		f.add(negation, e.Pos(), e.Pos(), "!")
	}
}

// numbers enlarges the decimal numbers below a node: a small one by 1, others twofold.
func (f *finder) numbers(top ast.Node) {
	ast.Inspect(top, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.INT && lit.Kind != token.FLOAT {
			return true
		}
		if v, err := strconv.ParseUint(strings.ReplaceAll(lit.Value, "_", ""), 10, 62); err == nil && v < 10 {
			f.add(threshold, lit.Pos(), lit.End(), strconv.FormatUint(v+1, 10))
		} else if !strings.HasPrefix(lit.Value, "0") || lit.Kind == token.FLOAT {
			f.add(threshold, lit.Pos(), lit.End(), "2*"+lit.Value)
		}
		return true
	})
}

func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt:
			f.add(statement, s.Pos(), s.End(), "")
		case *ast.BranchStmt:
			if s.Tok != token.FALLTHROUGH {
				f.add(statement, s.Pos(), s.End(), "")
			}
		case *ast.AssignStmt:
			blank := strings.TrimSuffix(strings.Repeat("_, ", len(s.Lhs)), ", ") + " = "
			if s.Tok != token.DEFINE && !strings.HasPrefix(f.text(s), blank) { // the right side stays used
				f.add(statement, s.Pos(), s.Rhs[0].Pos(), blank)
			}
		case *ast.ReturnStmt:
			if len(s.Results) == 0 {
				f.add(statement, s.Pos(), s.End(), "")
			}
		}
	}
}
