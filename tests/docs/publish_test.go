package docs

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// charmcraft maps its commands that pages use to the number of their arguments, as of
// charmcraft 3.5's help.
var charmcraft = map[string]int{"login": 0, "register": 1, "create-track": 2, "upload": 1, "upload-resource": 2, "release": 1, "status": 1, "close": 2, "pack": 0}

// No test can run charmcraft, because it is a snap and asks Charmhub.
func TestCharmcraftCommandsNameThisCharm(t *testing.T) {
	var meta struct {
		Name      string
		Resources map[string]any
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "metadata.yaml")), &meta))
	found := 0
	for page, md := range pages(t) {
		for _, line := range code(md) {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "charmcraft" {
				continue
			}
			found++
			want, known := charmcraft[words[1]]
			require.True(t, known, "%s: %s", page, line)
			var args []string
			for i, w := range words[2:] {
				if !strings.HasPrefix(w, "--") && words[i+1] != "--name" {
					args = append(args, w)
				}
				if resource, ok := strings.CutPrefix(w, "--resource="); ok {
					name, _, _ := strings.Cut(resource, ":")
					require.Contains(t, meta.Resources, name, page)
				}
			}
			if len(words) == 2 { // named in a sentence
				continue
			}
			require.Len(t, args, want, "%s: %s", page, line)
			if words[1] != "upload" {
				require.Equal(t, meta.Name, args[0], page)
			}
			if words[1] == "upload-resource" {
				require.Contains(t, meta.Resources, args[1], page)
			}
			if i := slices.Index(words, "--name"); i > 0 {
				require.Equal(t, meta.Name, words[i+1], page)
			}
		}
	}
	require.Greater(t, found, 5)
}
