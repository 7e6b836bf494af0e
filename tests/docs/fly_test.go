package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/tests/fly"
)

// flyFlag is a flag in the help of fly: -t, --target= or --json.
var flyFlag = regexp.MustCompile(`(?m)^\s+(?:(-\w), |    )(--[a-z-]+)(=?)`)

// flyProblem holds a command against fly's own help.
func flyProblem(t *testing.T, program string, argv []string) string {
	t.Helper()
	verb := ""
	var flags []string
	for i := 1; i < len(argv); i++ {
		switch w := argv[i]; {
		case verb == "" && w == "--version" && len(argv) == 2:
			return ""
		case verb == "" && (w == "-t" || w == "--target"):
			i++ // any name will do
		case strings.HasPrefix(w, "-") && verb == "":
			return "this test does not know " + w + " before the command"
		case verb == "":
			verb = w
		default:
			flags = append(flags, w)
		}
	}
	help, err := exec.Command(program, verb, "--help").CombinedOutput()
	if verb == "" || err != nil {
		return "fly has no command " + verb
	}
	known := map[string]bool{} // to whether it takes a value
	for _, m := range flyFlag.FindAllStringSubmatch(string(help), -1) {
		known[m[1]], known[m[2]] = m[3] != "", m[3] != ""
	}
	if _, ok := known["--target"]; !ok {
		return "the help of fly " + verb + " is not understood"
	}
	for i := 0; i < len(flags); i++ {
		name, _, joined := strings.Cut(flags[i], "=")
		takes, ok := known[name]
		switch {
		case !strings.HasPrefix(name, "-"):
			return "fly " + verb + " takes no word such as " + name
		case !ok:
			return "fly " + verb + " has no flag " + name
		case takes && !joined:
			if i++; i == len(flags) {
				return name + " has no value"
			}
		}
	}
	return ""
}

func TestFlyKnowsItsCommands(t *testing.T) {
	program := fly.Program(t)
	for _, c := range commands(t, "fly") {
		if strings.Contains(c.line, "...") {
			continue
		}
		assert.Empty(t, flyProblem(t, program, c.argv), "%s: %s", c.page, c.line)
	}
	for line, want := range map[string]string{
		"fly -t ci workerz":                "no command workerz",
		"fly -t ci workers --detail":       "no flag --detail",
		"fly -t ci workers all":            "takes no word",
		"fly -t ci execute --tag":          "has no value",
		"fly -t ci execute -c task.yml":    "",
		"fly --target ci workers --json":   "",
		"fly login --concourse-url http:x": "",
	} {
		got := flyProblem(t, program, simple(line)[0])
		require.Contains(t, got, want, line)
		require.Equal(t, want == "", got == "", line)
	}
}

// flyYAML are the pieces of YAML that are for Concourse, each as a pipeline:
// tasks and steps are put into one.
func flyYAML(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for page, md := range pages(t) {
		for _, m := range fenced.FindAllStringSubmatch(md, -1) {
			if m[1] != "yaml" {
				continue
			}
			var doc any
			require.NoError(t, yaml.Unmarshal([]byte(m[2]), &doc), page)
			var p any
			switch d := doc.(type) {
			case []any:
				p = map[string]any{"jobs": []any{map[string]any{"name": "j", "plan": append([]any{
					map[string]any{"get": "image"}}, d...)}}, "resources": got("get: image")}
			case map[string]any:
				switch {
				case d["jobs"] != nil:
					if d["resources"] == nil {
						d["resources"] = got(m[2]) // a page that shows the job alone
					}
					p = d
				case d["platform"] != nil:
					p = map[string]any{"jobs": []any{map[string]any{"name": "j", "plan": []any{map[string]any{"task": "t", "config": d}}}}}
				default:
					continue // it is for another program
				}
			}
			text, err := yaml.Marshal(p)
			require.NoError(t, err)
			out[page+"\n"+m[2]] = string(text)
		}
	}
	require.Greater(t, len(out), 2)
	return out
}

var getStep = regexp.MustCompile(`\bget: (\w+)`)

// got are resources for the gets of a text.
func got(text string) (resources []any) {
	for _, m := range getStep.FindAllStringSubmatch(text, -1) {
		resources = append(resources, map[string]any{"name": m[1], "type": "registry-image", "source": map[string]any{"repository": "r"}})
	}
	return resources
}

func TestFlyTakesTheYAMLOfThePages(t *testing.T) {
	program := fly.Program(t)
	for name, text := range flyYAML(t) {
		path := filepath.Join(t.TempDir(), "pipeline.yml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		out, err := exec.Command(program, "validate-pipeline", "--strict", "--config", path).CombinedOutput()
		assert.NoError(t, err, "%s: %s", name, out)
	}
}
