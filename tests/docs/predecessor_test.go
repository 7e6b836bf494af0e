package docs

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
)

// defectsPage is for whoever changes the charm, and no page of docs.
const defectsPage = "internal/charm/predecessor/DEFECTS.md"

// defects is how many of the Python charm's are accounted for.
const defects = 66

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// goTests are the names of all tests of the tree, whatever they need to run.
func goTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, p)
		for _, m := range testFunc.FindAllStringSubmatch(readFile(t, rel), -1) {
			names[m[1]] = true
		}
		return err
	}))
	require.Greater(t, len(names), 500)
	return names
}

// Each defect has one row, in order, that reports what is done instead and which tests show
// it.
func TestEveryDefectOfThePythonCharmIsAccountedFor(t *testing.T) {
	page := readFile(t, defectsPage)
	var want, listed []string
	for n := range defects {
		want = append(want, fmt.Sprintf("D%d", n+1))
	}
	require.Equal(t, want, regexp.MustCompile(`\bD\d+\b`).FindAllString(page, -1))
	there := goTests(t)
	for _, row := range table(page, "defect") {
		require.Len(t, row, 4, row)
		listed = append(listed, row[0])
		if why, ok := strings.CutPrefix(row[3], "none: "); ok {
			assert.NotEmpty(t, why, row[0])
			continue
		}
		shown := spans(row[3])
		assert.NotEmpty(t, shown, row[0])
		for _, name := range shown {
			assert.True(t, there[name], "%s: there is no test %s", row[0], name)
		}
	}
	require.Equal(t, want, listed)
}

// D65: the predecessor's metadata sold a mode that did not work.
func TestD65NoModeIsOfferedThatOptionsRefuse(t *testing.T) {
	offered := regexp.MustCompile(`\bmode=([a-z+]+)`)
	n := 0
	for _, name := range []string{"metadata.yaml", "charmcraft.yaml", "config.yaml", "README.md", "docs/how-to/migrate.md"} {
		for _, m := range offered.FindAllStringSubmatch(readFile(t, name), -1) {
			n++
			_, problems := config.Parse(map[string]any{"mode": m[1]}, nil)
			assert.Empty(t, problems, "%s offers mode=%s", name, m[1])
		}
	}
	require.Positive(t, n)
}
