package docs

import (
	"fmt"
	"go/ast"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const statusPage = "docs/reference/status.md"

// statusMatcher knows the texts of statuses, and of the wrapper.
func statusMatcher(t *testing.T) *matcher {
	t.Helper()
	patterns := wrapperPatterns(t, readSource(t))
	// The texts that are put together piece by piece, in Charm.ready and by
	// concourse.storageError.
	version, gpus, folders := " (v"+hole+")", " (GPU: "+hole+"x "+hole+")", " ("+hole+" folders: "+hole+" RO, "+hole+" RW)"
	require.Subset(t, patterns, []string{"Worker ready", version, gpus, folders})
	// A unit and its problem have but a space between them, and servers' words
	// are not the charm's.
	progress := hole + "/" + hole + " " + hole + " (" + hole + ")"
	require.Subset(t, patterns, []string{hole + " " + hole, progress})
	patterns = append(patterns, "flight: "+hole+" "+hole+": "+hole, "404 "+http.StatusText(http.StatusNotFound))
	choose := "compute-runtime: auto can't choose, %s GPUs are passed through; set it to %s"
	require.Contains(t, patterns, strings.ReplaceAll(choose, "%s", hole))
	patterns = append(patterns, fmt.Sprintf(choose, hole+" and "+hole, hole+" or "+hole))
	gone, readonly := "Shared storage unavailable - mount may have been removed.", "Shared storage not writable: "+hole+". Check mount permissions."
	way := "On the LXD host run: lxc config device "
	add, set := way+"add "+hole+" shared-storage disk source=<folder> path=/var/lib/concourse shift=true", way+"set "+hole+" shared-storage shift=true"
	require.Subset(t, patterns, []string{"Web server ready", gone, readonly, add, set})
	patterns = append(patterns, "Web server ready"+version+" "+hole, gone+" "+add, readonly+" "+set)
	m := newMatcher(append(patterns, "Worker ready"+version, "Worker ready"+version+gpus,
		"Worker ready"+version+folders, "Worker ready"+version+gpus+folders))
	m.join(progress)
	for _, p := range patterns { // what the unit has of another vendor may be nothing
		if nothing := strings.Replace(p, " passed through"+hole, " passed through", 1); nothing != p {
			m.join(nothing)
		}
	}
	return m
}

// Every text in a table headed "status" is one that the code prints, so a
// change of a text has to change the pages that quote it.
func TestQuotedStatusesAreTheCodes(t *testing.T) {
	m := statusMatcher(t)
	quoting := map[string]bool{}
	for name, md := range pages(t) {
		rows := append(table(md, "status"), table(md, "message")...)
		if quoting[name] = len(rows) > 0; !quoting[name] {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, row := range rows {
				quoted := spans(row[0])
				require.NotEmpty(t, quoted, row)
				for _, text := range quoted {
					assert.True(t, m.prints(text), "the code prints nothing like: %s", text)
				}
			}
		})
	}
	for _, name := range []string{"README.md", statusPage, "docs/how-to/troubleshoot.md"} {
		require.True(t, quoting[name], name)
	}
}

// So is what pages show of juju status.
func TestShownStatusesAreTheCodes(t *testing.T) {
	m, n := statusMatcher(t), 0
	for page, md := range pages(t) {
		for _, line := range code(md) {
			if row := regexp.MustCompile(`^\S+/\d+\*?\s+(?:active|blocked|waiting)\s+idle\s+(.*)$`).FindStringSubmatch(line); row != nil {
				n++
				assert.True(t, m.prints(row[1]), "%s: the code prints nothing like: %s", page, row[1])
			}
		}
	}
	require.Greater(t, n, 3)
}

// What the reference does not list, nobody can look up.
func TestReferenceListsEveryStatus(t *testing.T) {
	var listed []string
	for _, row := range table(readFile(t, statusPage), "status") {
		listed = append(listed, spans(row[0])...)
	}
	texts := strings.Join(listed, "\n")
	wanted := readSource(t).statuses()
	require.Greater(t, len(wanted), 50)
	for _, p := range wanted {
		var re []string
		for part := range strings.SplitSeq(p, hole) {
			re = append(re, regexp.QuoteMeta(part))
		}
		assert.Regexp(t, strings.Join(re, ".*"), texts, "%s lacks %s", statusPage, strings.ReplaceAll(p, hole, "<...>"))
	}
}

// statuses are the patterns of the texts that end up in a status: causes and
// progress, remedies, option problems, and rocm's reasons.
func (s *source) statuses() (out []string) {
	s.each(func(pkg string, n ast.Node) bool {
		var texts []ast.Expr
		switch n := n.(type) {
		case *ast.CompositeLit:
			for _, e := range n.Elts { // of status.Cause and status.Status, which nothing else is like
				if kv, ok := e.(*ast.KeyValueExpr); ok && len(n.Elts) == 2 && slices.ContainsFunc(n.Elts, hasKind) {
					if key, ok := kv.Key.(*ast.Ident); ok && (key.Name == "Text" || key.Name == "Message") {
						texts = append(texts, kv.Value)
					}
				}
			}
		case *ast.CallExpr:
			f, _ := n.Fun.(*ast.SelectorExpr)
			switch {
			case f == nil:
			case f.Sel.Name == "block", f.Sel.Name == "say", f.Sel.Name == "problem", f.Sel.Name == "Errorf" && pkg == "config":
				texts = append([]ast.Expr{n}, n.Args...)
				if f.Sel.Name == "say" {
					texts = n.Args[1:]
				}
			}
		case *ast.FuncDecl:
			if n.Name.Name == "Remedy" || pkg == "rocm" && (n.Name.Name == "impossible" || n.Name.Name == "malformed" || n.Name.Name == "cause") {
				ast.Inspect(n, func(n ast.Node) bool {
					if r, ok := n.(*ast.ReturnStmt); ok {
						texts = append(texts, r.Results...)
					}
					return true
				})
			}
		}
		for _, e := range texts {
			if p := s.eval(pkg, e); letters.MatchString(p) {
				out = append(out, p)
			}
		}
		return true
	})
	return out
}

func hasKind(e ast.Expr) bool {
	kv, ok := e.(*ast.KeyValueExpr)
	if !ok {
		return false
	}
	key, ok := kv.Key.(*ast.Ident)
	return ok && key.Name == "Kind"
}
