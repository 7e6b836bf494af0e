//go:build kubernetes

package kubernetes

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const page = "../../docs/how-to/kubernetes.md"

var podBlock = regexp.MustCompile("(?s)```yaml\n(apiVersion: v1\nkind: Pod\n.*?)```")

// runsThePage runs each pod of the page as it is written there; registries are the tests'.
func runsThePage(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	blocks := podBlock.FindAllSubmatch(text, -1)
	require.NotEmpty(t, blocks, "pods of %s", page)
	unit(t, 2)
	for _, block := range blocks {
		var p struct{ Metadata struct{ Name string } }
		require.NoError(t, yaml.Unmarshal(block[1], &p))
		name := p.Metadata.Name
		t.Cleanup(func() { end(t, name) })
		apply(t, string(block[1]))
		require.Equal(t, nodes(0), opened(t, name), "%s", block[1])
		end(t, name)
	}
}
