package hooks

import (
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireListed holds what a unit provided against the page of files: each file is there,
// and it and the folders that are have the mode that the page reports.
func requireListed(t *testing.T, before, after map[string]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/files.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^- (`/\\S+`) \\((\\S+)\\):").FindAllStringSubmatch(string(page), -1)
	modes := map[string]string{}
	for _, row := range rows {
		mode := row[2]
		if n, err := strconv.ParseUint(mode, 8, 32); err == nil {
			mode = fs.FileMode(n).String()[1:]
		}
		for path := range strings.SplitSeq(row[1], "<br>") {
			modes[strings.Trim(path, "`")] = mode
		}
	}
	met := 0
	for path, is := range after {
		if _, was := before[path]; was || inside.MatchString(path) {
			continue
		}
		if strings.HasPrefix(path, "/run/concourse-ci-machine/") && strings.HasSuffix(path, ".stamp") {
			path = "/run/concourse-ci-machine/<trigger>.stamp"
		}
		mode, ok := modes[path]
		if !ok {
			require.True(t, is[0] == 'd', "files.md lacks %s", path)
			continue
		}
		met++
		if is[0] == 'L' {
			is = " link"
		}
		require.Equal(t, mode, strings.Fields(is[1:])[0], path)
	}
	require.Greater(t, met, 25)
}

// inside are files that the page reports without a row: a release's own, and the public
// halves of the web's keys. The list of users is useradd's.
var inside = regexp.MustCompile(`^/var/lib/concourse/(releases/.|keys/\w+\.pub$)|^/etc/(passwd|group)$`)
