package terraform

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const root = "../.."

var examples = []string{"auto", "rocm"}

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	require.NoError(t, err)
	return string(data)
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(read(t, name)), into))
}

// block is what is in a block of a file that `tofu fmt` has formatted.
func block(t *testing.T, text, head string) string {
	t.Helper()
	_, rest, ok := strings.Cut("\n"+text, "\n"+head+" {\n")
	require.True(t, ok, "no %s", head)
	inside, _, _ := strings.Cut(rest, "\n}\n")
	return inside
}

// quoted are the texts in quotes that follow what `before` matches.
func quoted(t *testing.T, text, before string) (out []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(before+`"([^"]*)"`).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	require.NotEmpty(t, out, "nothing in quotes after %s", before)
	return out
}

type metadata struct {
	Name                          string
	Provides, Requires, Resources map[string]any
}

// endpointsOutput returns an output with a row for each endpoint, as `tofu fmt` formats it.
func endpointsOutput(name, description string, endpoints map[string]any) string {
	names := slices.Sorted(maps.Keys(endpoints))
	width := 0
	for _, n := range names {
		width = max(width, len(n))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "output %q {\n  description = %q\n  value = {\n", name, description)
	for _, n := range names {
		fmt.Fprintf(&b, "    %-*s = %q\n", width, strings.ReplaceAll(n, "-", "_"), n)
	}
	b.WriteString("  }\n}\n")
	return b.String()
}

func TestOutputsAreTheCharmsEndpoints(t *testing.T) {
	var m metadata
	readYAML(t, "metadata.yaml", &m)
	want := endpointsOutput("provides", "Endpoints that the charm provides.", m.Provides) + "\n" +
		endpointsOutput("requires", "Endpoints that the charm requires.", m.Requires)
	head, _, _ := strings.Cut(read(t, "terraform/outputs.tf"), `output "provides"`)
	hosttest.Golden(t, filepath.Join(root, "terraform", "outputs.tf"), head+want)
}

func TestModuleKnowsTheCharm(t *testing.T) {
	var m metadata
	readYAML(t, "metadata.yaml", &m)
	var c struct{ Platforms map[string]any }
	readYAML(t, "charmcraft.yaml", &c)
	variables := read(t, "terraform/variables.tf")

	require.Equal(t, []string{m.Name}, quoted(t, read(t, "terraform/main.tf"), `\n    name     = `))
	require.Equal(t, slices.Collect(maps.Keys(m.Resources)), quoted(t, block(t, variables, `variable "resources"`), `name == `))

	var bases []string
	for platform := range c.Platforms {
		if base, ok := strings.CutSuffix(platform, ":amd64"); ok {
			bases = append(bases, base)
		}
	}
	require.ElementsMatch(t, bases, list(t, block(t, variables, `variable "base"`)))

	_, problems := config.Parse(map[string]any{"mode": "other"}, nil)
	require.Contains(t, problems[0].Text, "one of "+strings.Join(list(t, block(t, variables, `variable "config"`)), ", "))
}

// list are the values that a condition takes.
func list(t *testing.T, text string) []string {
	t.Helper()
	m := regexp.MustCompile(`contains\(\[([^]]*)\]`).FindStringSubmatch(text)
	require.NotNil(t, m)
	return quoted(t, m[1], "")
}

// The tables of inputs and outputs have what the files report, by name.
func TestREADMEHasInputsAndOutputs(t *testing.T) {
	readme := read(t, "terraform/README.md")
	for file, kind := range map[string]string{"terraform/variables.tf": "variable", "terraform/outputs.tf": "output"} {
		text := read(t, file)
		for _, name := range quoted(t, text, `(?m)^`+kind+` `) {
			description := quoted(t, block(t, text, kind+` "`+name+`"`), `(?m)^  description = `)[0]
			require.Contains(t, readme, "| `"+name+"` | "+description, file)
		}
	}
}

// version is the version of a program in the go.mod of the module that builds it.
func version(module, path string) (string, error) {
	data, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^\s` + regexp.QuoteMeta(path) + ` v(\S+)`).FindSubmatch(data)
	if m == nil {
		return "", fmt.Errorf("cannot find the version of %s in %s/go.mod", path, module)
	}
	return string(m[1]), nil
}

func TestPagesShowWhatTheTestsRun(t *testing.T) {
	tofu, err := version("tofu", "github.com/opentofu/opentofu")
	require.NoError(t, err)
	provider, err := version("provider", "github.com/juju/terraform-provider-juju")
	require.NoError(t, err)
	for _, page := range []string{"terraform/README.md", "CONTRIBUTING.md"} {
		text := strings.Join(strings.Fields(read(t, page)), " ")
		require.Contains(t, text, "OpenTofu "+tofu, page)
		require.Contains(t, text, "provider "+provider, page)
	}
}

func TestExamplesWantTheModulesVersions(t *testing.T) {
	for _, example := range examples {
		require.Equal(t, read(t, "terraform/versions.tf"), read(t, "terraform/examples", example, "versions.tf"))
	}
}

// A module that is not taken over would be made of what Charmhub has.
func TestExamplesTakeOverEachOfTheirModules(t *testing.T) {
	for _, example := range examples {
		text := read(t, "terraform/examples", example, "main.tf")
		var want []string
		for _, name := range quoted(t, text, `(?m)^module `) {
			app := "concourse-ci"
			if m := regexp.MustCompile(`app_name += "(.*)"`).FindStringSubmatch(block(t, text, `module "`+name+`"`)); m != nil {
				app = m[1]
			}
			want = append(want, "  to = module."+name+".juju_application.concourse\n  id = \"${var.model_uuid}:"+app+"\"\n")
		}
		var got []string
		for _, rest := range strings.Split(read(t, "terraform/examples", example, "import.tf"), "import {\n")[1:] {
			inside, _, _ := strings.Cut(rest, "}\n")
			got = append(got, inside)
		}
		require.Equal(t, want, got)
	}
}
