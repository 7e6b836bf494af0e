package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const tutorial = "docs/tutorial/first-rocm-task.md"

// The way from a bare Ubuntu to the first GPU task stays short.
func TestTutorialHasTwelveCommands(t *testing.T) {
	page, _, found := strings.Cut(readFile(t, tutorial), "\n## Look around\n")
	require.True(t, found)
	lines := blockLines(page)
	require.Len(t, lines, 12)
	require.True(t, strings.HasPrefix(lines[11], "fly --target ci execute "), lines[11])
}

// bundle.yaml and concierge.yaml fit what the charm, the other commands and the page need.
func TestTutorialDeploysItsBundle(t *testing.T) {
	w := readJujuWorld(t)
	var bundle struct {
		Applications map[string]struct {
			Charm   string
			Units   int            `yaml:"num_units"`
			Options map[string]any `yaml:"options"`
		}
		Relations [][]string
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "docs/tutorial/bundle.yaml")), &bundle))
	for name, app := range bundle.Applications {
		require.Equal(t, 1, app.Units, name)
		if !slices.Contains(ours, name) {
			require.Equal(t, name, app.Charm)
			continue
		}
		require.Equal(t, "../../concourse-ci-machine_amd64.charm", app.Charm, "make charm writes it at the root")
		var words []string
		for option, value := range app.Options {
			words = append(words, fmt.Sprintf("%s=%v", option, value))
		}
		require.Empty(t, w.optionsProblem(words), name)
	}
	for _, ends := range bundle.Relations {
		require.Len(t, ends, 2)
		for _, end := range ends {
			require.Empty(t, w.endProblem(end))
			app, _, _ := strings.Cut(end, ":")
			require.Contains(t, bundle.Applications, app)
		}
	}
	for _, c := range commands(t, "juju") {
		if c.page == tutorial && (c.argv[1] == "run" || c.argv[1] == "ssh") {
			app, _, _ := strings.Cut(c.argv[2], "/")
			require.Contains(t, bundle.Applications, app, c.line)
		}
	}

	var host struct {
		Juju      struct{ Channel string }
		Providers struct {
			LXD struct{ Enable, Bootstrap bool }
		}
		Host struct {
			Packages []string
			Snaps    map[string]any
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "docs/tutorial/concierge.yaml")), &host))
	require.Equal(t, "3.6/stable", host.Juju.Channel)
	require.True(t, host.Providers.LXD.Enable && host.Providers.LXD.Bootstrap)
	require.Subset(t, host.Host.Packages, []string{"make", "jq"}, "make charm and pass-gpu.sh need them")
	require.Contains(t, host.Host.Snaps, "go")
}
