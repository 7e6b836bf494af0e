package driver

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// The Helm chart has the flags of the program, apart from those that it sets itself and those
// of units and tests.
func TestChartHasTheFlagsOfTheDriver(t *testing.T) {
	data, err := os.ReadFile("../../../tools/images/chart/values.schema.json")
	require.NoError(t, err)
	var schema struct {
		Properties struct {
			DRA struct{ Properties map[string]any }
		}
	}
	require.NoError(t, json.Unmarshal(data, &schema))
	own := []string{"config", "kubeconfig", "kubelet-dir", "node-name", "path.root"}
	var flags []string
	newCommand("", nil).Flags().VisitAll(func(f *pflag.Flag) {
		flags = append(flags, strings.Replace(f.Name, "-gpus", "Gpus", 1))
	})
	require.ElementsMatch(t, flags, append(own, slices.Collect(maps.Keys(schema.Properties.DRA.Properties))...))
}
