package pipelines

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryFileCanBeHadAsItIs(t *testing.T) {
	var list strings.Builder
	require.NoError(t, Write(&list, ""))
	names := strings.Fields(list.String())
	for _, name := range []string{"rocm-build.yml", "rocm-pr.yml", "vars/rocm-build.yml", "tasks/unit.yml", "tasks/rocm/rocm_env.py"} {
		require.Contains(t, names, name)
	}
	for _, name := range names {
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		var got strings.Builder
		require.NoError(t, Write(&got, name))
		require.Equal(t, string(want), got.String(), name)
	}
}

func TestUnknownPipelineIsRefused(t *testing.T) {
	for _, name := range []string{"rocm", "tasks", "../go.mod", "/etc/passwd", "./rocm-pr.yml", "embed.go"} {
		var b strings.Builder
		require.ErrorContains(t, Write(&b, name), "no such pipeline or task; without a name all are listed", name)
		require.Empty(t, b.String())
	}
}
