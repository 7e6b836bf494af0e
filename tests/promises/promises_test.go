// Package promises checks that each promise of the documents that this project implements has
// a test or a file that shows it, or a row on the page of what is not here.
package promises

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root  = "../.."
	count = 141 // promises of the five documents
)

// row describes a promise.
type row struct {
	number, promise string
	shown           []string // folder:Test, or a file
	missing         string   // the row of not-here.md
}

var form = regexp.MustCompile(`^(P\d+) \| ([^|]+) \| ([^|]+) \|(?: [^|]+)?$`)

func rows(t *testing.T) (all []row) {
	t.Helper()
	data, err := os.ReadFile("promises.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "== ") {
			continue
		}
		m := form.FindStringSubmatch(line)
		require.NotNil(t, m, line)
		shown, missing, _ := strings.Cut(m[3], "not here: ")
		all = append(all, row{m[1], m[2], strings.Fields(shown), missing})
	}
	return all
}

func TestEachPromiseIsKeptOrHasAReason(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/explanation/not-here.md"))
	require.NoError(t, err)
	all := rows(t)
	require.Len(t, all, count)
	for i, r := range all {
		require.Equal(t, fmt.Sprint("P", i+1), r.number, "they stand in their order, each once")
		require.True(t, len(r.shown) > 0 || r.missing != "", "%s has neither a test nor a reason", r.number)
		if r.missing != "" {
			require.Contains(t, string(page), "| "+r.missing+" | ", "%s: docs/explanation/not-here.md", r.number)
		}
		for _, name := range r.shown {
			folder, test, isTest := strings.Cut(name, ":")
			if !isTest {
				require.FileExists(t, filepath.Join(root, name), r.number)
				continue
			}
			require.True(t, hasTest(t, folder, test), "%s: %s has no %s", r.number, folder, test)
		}
	}
}

// hasTest reports whether a folder has a test, whatever its build tags.
func hasTest(t *testing.T, folder, test string) bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	require.NoError(t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		if strings.Contains(string(data), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
