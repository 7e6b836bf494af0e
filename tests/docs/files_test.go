package docs

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const filesPage = "docs/reference/files.md"

// listedFiles is path -> mode, "link" for links.
func listedFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, row := range table(readFile(t, filesPage), "path") {
		require.Len(t, row, 4, row)
		require.Len(t, spans(row[0]), 1, row)
		files[spans(row[0])[0]] = row[1]
	}
	require.Greater(t, len(files), 30)
	return files
}

func TestListedFilesOccurInTheCode(t *testing.T) {
	s := readSource(t)
	m := &matcher{known: map[string]bool{}}
	for _, p := range s.patterns() {
		start, _, _ := strings.Cut(p, hole)
		if strings.Count(start, "/") > 2 || p == start && strings.HasPrefix(p, "/") {
			m.join(p)
		}
	}
	// Paths whose parts the code puts together from elsewhere.
	apart := map[string][]string{
		"/etc/cdi": {"/etc/cdi/amd.json"}, // its folder
		"/var/lib/concourse-charm/pebble/layers/001-rocm-exporter.yaml": {
			"/var/lib/concourse-charm/pebble/layers", hole + "/001-" + hole + ".yaml", "rocm-exporter"},
		"/var/lib/concourse-charm/pebble/layers/001-concourse-exporter.yaml": {
			"/var/lib/concourse-charm/pebble/layers", hole + "/001-" + hole + ".yaml", "concourse-exporter"},
	}
	for path := range listedFiles(t) {
		if parts, ok := apart[path]; ok {
			assert.Subset(t, s.patterns(), parts)
			continue
		}
		assert.True(t, m.prints(path), "the code names no %s", path)
	}
}

// What the code writes to a path that is known beforehand is on the page, with
// the mode that it has there.
func TestWrittenFilesAreListed(t *testing.T) {
	listed, s := listedFiles(t), readSource(t)
	written := s.written()
	require.Greater(t, len(written), 15)
	for path, mode := range written {
		if strings.Contains(path, hole) {
			continue
		}
		assert.Contains(t, listed, path)
		if mode != "" {
			assert.Equal(t, mode, listed[path], path)
		}
	}
}

// written is path -> mode of the resources that make files and folders, and
// of direct writes. The mode is empty where it is not in the same expression.
func (s *source) written() map[string]string {
	out := map[string]string{}
	note := func(path, mode string) {
		mode = strings.TrimPrefix(mode, "0o")
		if mode == hole || out[path] != "" {
			mode = out[path]
		} else if mode != "" {
			mode = "0" + mode
		}
		out[path] = mode
	}
	s.each(func(pkg string, n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			name := ""
			switch of := n.Type.(type) {
			case *ast.Ident:
				name = of.Name
			case *ast.SelectorExpr:
				name = of.Sel.Name
			}
			if !slices.Contains([]string{"File", "Dir", "Copy", "Key", "AptKey"}, name) {
				return true
			}
			path, mode := "", ""
			for _, e := range n.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				switch kv.Key.(*ast.Ident).Name {
				case "Path":
					path = s.eval(pkg, kv.Value)
				case "Mode":
					mode = s.eval(pkg, kv.Value)
				}
			}
			if strings.HasPrefix(path, "/") {
				note(path, mode)
			}
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) == 0 {
				return true
			}
			if path := s.eval(pkg, n.Args[0]); f.Sel.Name == "WriteFile" && strings.HasPrefix(path, "/") {
				note(path, s.eval(pkg, n.Args[2]))
			}
		}
		return true
	})
	return out
}
