package charm

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/tools/charmpack"
)

// root is the repository.
const root = "../.."

func TestFilesAreInJujusFormat(t *testing.T) {
	require.NoError(t, charmpack.Source{Root: root}.Check())
}

// hooks/ and metadata.yaml are both checked in; `make hooks` provides them together.
func TestHooksMatchTheMetadata(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "metadata.yaml"))
	require.NoError(t, err)
	var meta struct{ Provides, Requires, Peers, Storage map[string]any }
	require.NoError(t, yaml.Unmarshal(data, &meta))
	endpoints := map[string]any{}
	for _, group := range []map[string]any{meta.Provides, meta.Requires, meta.Peers} {
		maps.Copy(endpoints, group)
	}
	require.Contains(t, endpoints, "flight")
	want := charmpack.HookNames(slices.Collect(maps.Keys(endpoints)), slices.Collect(maps.Keys(meta.Storage)))
	entries, err := os.ReadDir(filepath.Join(root, "hooks"))
	require.NoError(t, err)
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	require.Equal(t, want, have)
}
