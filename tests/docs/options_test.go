package docs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/host/hosttest"
)

const optionsIntro = `# Options

Set them with ` + "`juju config <application> <option>=<value>`" + `. A value that an option can't
have is named in the unit's [status](status.md), together with all others, and
nothing is changed until they are right. The charm acts on a change in the
next hook, which Juju starts at once.

This page is made from config.yaml; ` + "`go test ./tests/docs -update`" + ` writes it anew.

`

// optionsPage is docs/reference/options.md as config.yaml wants it.
func optionsPage(t *testing.T) string {
	t.Helper()
	var doc struct{ Options yaml.Node }
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "config.yaml")), &doc))
	var b strings.Builder
	b.WriteString(optionsIntro + "| option | type | default | what it does |\n|---|---|---|---|\n")
	nodes := doc.Options.Content
	require.NotEmpty(t, nodes)
	for i := 0; i < len(nodes); i += 2 { // a mapping is keys and values in turn, in the file's order
		var o struct{ Type, Default, Description string }
		require.NoError(t, nodes[i+1].Decode(&o))
		standard := "empty"
		if o.Default != "" {
			standard = "`" + o.Default + "`"
		}
		text := strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(strings.Join(strings.Fields(o.Description), " "))
		text = regexp.MustCompile("`[^`]*`").ReplaceAllStringFunc(text, func(span string) string {
			return strings.ReplaceAll(span, "&lt;", "<") // code stands as it is
		})
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", nodes[i].Value, o.Type, standard, text)
	}
	return b.String()
}

func TestOptionsPageIsConfigYAML(t *testing.T) {
	hosttest.Golden(t, root+"/docs/reference/options.md", optionsPage(t))
}

func TestREADMEListsEveryOptionWithItsDefault(t *testing.T) {
	var doc struct {
		Options map[string]struct{ Default string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "config.yaml")), &doc))
	var listed []string
	for _, row := range table(readFile(t, "README.md"), "option") {
		names, standard := spans(row[0]), spans(row[1])
		listed = append(listed, names...)
		if len(names) == 1 && len(standard) == 1 { // other rows have several options
			require.Equal(t, doc.Options[names[0]].Default, standard[0], names[0])
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(doc.Options)), listed)
}
