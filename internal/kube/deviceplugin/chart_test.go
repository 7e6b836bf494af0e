package deviceplugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// chart is the Helm chart that runs the program on nodes without a unit.
const chart = "../../../tools/images/chart"

// flagOf returns the flag of a value of the chart.
func flagOf(value string) string {
	var b strings.Builder
	for _, c := range value {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(c)
	}
	return strings.ToLower(b.String())
}

// The values of the chart are the program's flags, with its defaults and limits. Those that
// the chart sets itself, or that are for units and tests, are none.
func TestChartHasTheFlagsOfTheProgram(t *testing.T) {
	var schema struct {
		Properties struct {
			DevicePlugin struct {
				Properties map[string]struct {
					Enum             []string
					Minimum, Maximum int
				}
			}
		}
	}
	data, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &schema))
	var values struct {
		DevicePlugin map[string]any `yaml:"devicePlugin"`
		KubeletDir   string         `yaml:"kubeletDir"`
	}
	data, err = os.ReadFile(filepath.Join(chart, "values.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &values))

	c := newCommand("", func(options) error { return nil })
	want := map[string]any{}
	c.Flags().VisitAll(func(f *pflag.Flag) { want[f.Name] = f.DefValue })
	require.Equal(t, want["kubelet-dir"], values.KubeletDir)
	for _, other := range []string{"kubelet-dir", "config", "path.root"} {
		delete(want, other)
	}
	for name, p := range schema.Properties.DevicePlugin.Properties {
		value, has := values.DevicePlugin[name]
		require.True(t, has, name)
		data, err := json.Marshal(value)
		require.NoError(t, err)
		require.Equal(t, want[flagOf(name)], strings.Trim(string(data), `"`), name)
		for _, allowed := range p.Enum {
			require.NoError(t, c.Flags().Set(flagOf(name), allowed))
			require.NoError(t, c.RunE(c, nil), "--%s=%s", flagOf(name), allowed)
		}
		if p.Maximum > 0 {
			require.Equal(t, []int{1, MaxReplicas}, []int{p.Minimum, p.Maximum})
		}
		delete(want, flagOf(name))
	}
	require.Empty(t, want, "flags without a value in the chart")
}
