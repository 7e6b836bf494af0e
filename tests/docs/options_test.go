package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/testutil/hosttest"
)

const optionsIntro = `# Options

Set them with ` + "`juju config <application> <option>=<value>`" + `. A value that an option can't
have is named in the unit's [status](status.md), together with all others, and
nothing is changed until they are right. The charm acts on a change in the
next hook, which Juju starts at once.

An option that may be the URI of a Juju secret takes the text itself, too. With a
secret nobody sees the text in ` + "`juju config`" + `:

    juju add-secret ldap ldap-bind-pw#file=password.txt
    juju grant-secret ldap <application>
    juju config <application> ldap-bind-pw=secret:d0000000000000000000

The URI is the one that ` + "`juju add-secret`" + ` prints. The text is that of the secret's
key with the option's name, else of its key ` + "`value`" + `, else of its only key. A new
revision of the secret takes effect by itself.

Where the path of a PEM file is taken, its text is taken as well; the charm makes
the file:

    juju config <application> vault-ca-cert=@ca.pem

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
