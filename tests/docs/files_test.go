package docs

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// That units bring no other files, and these with the modes of the page, is for
// tests/hooks, which has units.
func TestListedFilesAreMadeOfTheCodesNames(t *testing.T) {
	file := regexp.MustCompile(`^[\w./-]*[./_-][\w./-]*$`)
	names := slices.DeleteFunc(pieces(literals(t, "./...")), func(p string) bool { return !file.MatchString(p) || len(p) == 1 })
	names = append(names, "/")
	names = append(names, literals(t, "./...", ".Join")...)
	paths := terms(readFile(t, "docs/reference/files.md"))
	require.Greater(t, len(paths), 30)
	for _, path := range paths {
		assert.True(t, made(path, names, regexp.MustCompile(`^<\w+>`)), "the code has no names that make %s", path)
	}
}
