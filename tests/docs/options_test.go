package docs

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const optionsPage = "docs/reference/options.md"

// optionGroups maps the sections of the page to their options. A word that ends in "-" is a
// prefix. The longest word that fits an option decides.
var optionGroups = map[string]string{
	"role":       "mode version auto-upgrade github-token release- shared-storage log-level http-proxy https-proxy no-proxy",
	"web":        "web- external-url tls- encryption-key extra-worker-keys extra-web-flags container-placement-strategy default- max- gc-",
	"login":      "initial-admin-username main-team-local-user extra-local-users",
	"ldap":       "ldap- main-team-ldap-",
	"oauth":      "oauth- main-team-oauth-",
	"oidc":       "oidc- main-team-oidc-",
	"vault":      "vault- secret-cache-",
	"registries": "registry-",
	"worker":     "tag srv- containerd- worker- task-",
	"gpu":        "compute-runtime enable-gpu gpu- container-engines kubernetes required-archs limit-gpu- amd-container- nvidia-",
	"driver":     "rocm- install-driver allow- amdgpu-",
	"exporter":   "enable-metrics fleet- gpu-metrics",
}

// groupOf returns the section of an option, "" if no word fits.
func groupOf(option string) (section string) {
	longest := 0
	for name, words := range optionGroups {
		for word := range strings.FieldsSeq(words) {
			fits := word == option || strings.HasSuffix(word, "-") && strings.HasPrefix(option, word)
			if fits && len(word) > longest {
				section, longest = name, len(word)
			}
		}
	}
	return section
}

// description matches the text of an option: its allowed values, default and effect.
var description = regexp.MustCompile(`^([^;]+); default (\S+)\. (.+)$`)

// common matches texts of many options. The page explains them at its top.
var common = regexp.MustCompile(` May be the URI of a Juju secret\.|The path of a PEM file on the units, or its text(?: \(juju config [^)]*\))?`)

// optionTables returns the rows of each section, in the order of config.yaml.
func optionTables(t *testing.T) map[string]string {
	t.Helper()
	var doc struct{ Options yaml.Node }
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "config.yaml")), &doc))
	nodes := doc.Options.Content
	require.NotEmpty(t, nodes)
	rows := map[string]string{}
	for i := 0; i < len(nodes); i += 2 { // a mapping is keys and values in turn
		var o struct{ Default, Description string }
		require.NoError(t, nodes[i+1].Decode(&o))
		name := nodes[i].Value
		if o.Default != "" {
			name += "=" + o.Default
		}
		text := common.ReplaceAllStringFunc(strings.Join(strings.Fields(o.Description), " "), func(phrase string) string {
			if phrase[0] == 'T' {
				return "**PEM file**"
			}
			return " **Secret**."
		})
		parts := description.FindStringSubmatch(text)
		require.NotNil(t, parts, "%s: write the allowed values, the default and the effect", nodes[i].Value)
		require.Equal(t, cmp.Or(o.Default, "empty"), parts[2], nodes[i].Value)
		text = parts[1] + ". " + parts[3]
		text = strings.ReplaceAll(text, "<", "&lt;")
		text = regexp.MustCompile("`[^`]*`").ReplaceAllStringFunc(text, func(span string) string {
			return strings.ReplaceAll(span, "&lt;", "<") // code is as it is
		})
		group := groupOf(nodes[i].Value)
		require.NotEmpty(t, group, "%s is in no group of the page", nodes[i].Value)
		rows[group] += fmt.Sprintf("| `%s` | %s |\n", name, text)
	}
	return rows
}

func TestOptionsPageIsConfigYAML(t *testing.T) {
	page := readFile(t, optionsPage)
	rows := optionTables(t)
	for section := range optionGroups {
		require.NotEmpty(t, rows[section], "no option is in the group %s", section)
		page = withSection(t, page, section, "\n| option=default | values. Effect |\n|---|---|\n"+rows[section]+"\n")
	}
	hosttest.Golden(t, root+"/"+optionsPage, page)
}
