package docs

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
)

// ours are the names of applications of this charm on the pages.
var ours = []string{"web", "worker", "rocm-worker", "cuda-worker", "pr-worker", "ci", "concourse-ci"}

// jujuWorld holds the options, actions, endpoints and resources of the charm's files.
type jujuWorld struct {
	Options map[string]struct {
		Type    string
		Default any
	}
	Actions map[string]struct {
		Params map[string]struct {
			Type string
			Enum []string
		}
		Required []string
	}
	Endpoints map[string]bool
	Resources map[string]any
}

func readJujuWorld(t *testing.T) (w jujuWorld) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "config.yaml")), &w))
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "actions.yaml")), &w.Actions))
	var meta struct{ Requires, Provides, Resources map[string]any }
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "metadata.yaml")), &meta))
	w.Resources, w.Endpoints = meta.Resources, map[string]bool{}
	for _, ends := range []map[string]any{meta.Provides, meta.Requires} {
		for name := range ends {
			w.Endpoints[name] = true
		}
	}
	return w
}

// jujuProblem returns what the charm does not have of a command of juju, "" if it has all.
func (w jujuWorld) jujuProblem(argv []string, span bool) string {
	var args, options, resources []string
	for i := 2; i < len(argv); i++ {
		name, value, joined := strings.Cut(argv[i], "=")
		if !strings.HasPrefix(name, "-") {
			args = append(args, argv[i])
			continue
		}
		if takes := slices.Contains([]string{"--config", "--resource", "--reset"}, name); takes && !joined {
			if i++; i == len(argv) {
				return name + " has no value"
			}
			value = argv[i]
		}
		switch name {
		case "--config":
			options = append(options, value)
		case "--resource":
			resources = append(resources, value)
		case "--reset":
			options = append(options, strings.Split(value, ",")...)
		}
	}
	switch verb := argv[1]; {
	case len(args) == 0:
	case verb == "run" && !unitName.MatchString(args[0]):
		return "juju run wants a unit first, not " + args[0]
	case verb == "run" && !strings.HasPrefix(args[0], "postgresql/"):
		return w.actionProblem(args[1:], span)
	case verb == "integrate" && len(args) == 2:
		return cmp.Or(w.endProblem(args[0]), w.endProblem(args[1]))
	case verb == "attach-resource" && slices.Contains(ours, args[0]):
		resources = args[1:]
	case verb == "config" && slices.Contains(ours, args[0]):
		options = append(options, args[1:]...)
	case verb == "run", verb == "deploy" && !strings.HasSuffix(args[0], ".charm"):
		return "" // another charm
	}
	for _, r := range resources {
		if name, file, _ := strings.Cut(r, "="); w.Resources[name] == nil || file == "" {
			return "no resource as in " + r
		}
	}
	return w.optionsProblem(options)
}

var unitName = regexp.MustCompile(`^(<[^<>]+>|[a-z][a-z0-9-]*)/(\d+|leader)$`)

// placeholder reports whether people replace the text, or a part of it.
func placeholder(s string) bool { return strings.Contains(s, "...") || strings.Contains(s, "<") }

// endProblem returns what is wrong with an end of a relation, as <application>:<endpoint>.
func (w jujuWorld) endProblem(end string) string {
	if app, endpoint, named := strings.Cut(end, ":"); slices.Contains(ours, app) && named && !w.Endpoints[endpoint] {
		return "no endpoint " + end
	}
	return ""
}

// optionsProblem checks NAME=VALUE words against config.yaml, and the values of one command
// together as the charm does.
func (w jujuWorld) optionsProblem(words []string) string {
	const uri = "secret:d0000000000000000000"
	raw := map[string]any{}
	for _, word := range words {
		name, value, set := strings.Cut(word, "=")
		o, ok := w.Options[name]
		if !ok && placeholder(name) {
			continue
		}
		if !ok {
			return "no option " + name
		}
		if strings.HasPrefix(value, "secret:") {
			raw[name] = uri
			continue
		}
		if !set || placeholder(value) || strings.HasPrefix(value, "@") {
			continue
		}
		var err error
		switch o.Type {
		case "boolean":
			raw[name], err = strconv.ParseBool(value)
		case "int":
			raw[name], err = strconv.Atoi(value)
		default:
			raw[name] = value
		}
		if err != nil {
			return name + ": " + err.Error()
		}
	}
	_, problems := config.Parse(raw, config.Secrets{uri: {Content: map[string]string{"value": "x"}}})
	for _, p := range problems {
		// What lacks beside a single option may have been set before.
		if len(raw) > 1 || !strings.Contains(p.Text, "incomplete; ") {
			return p.String()
		}
	}
	return ""
}

func (w jujuWorld) actionProblem(args []string, span bool) string {
	if len(args) == 0 {
		return "juju run wants an action"
	}
	action, ok := w.Actions[args[0]]
	if !ok {
		return "no action " + args[0]
	}
	given := map[string]bool{}
	for _, word := range args[1:] {
		name, value, _ := strings.Cut(word, "=")
		p, ok := action.Params[name]
		_, notWhole := strconv.Atoi(value)
		_, notBool := strconv.ParseBool(value)
		switch given[name] = true; {
		case !ok:
			return "action " + args[0] + " has no parameter " + name
		case placeholder(value):
		case p.Enum != nil && !slices.Contains(p.Enum, value), value == "",
			p.Type == "integer" && notWhole != nil, p.Type == "boolean" && notBool != nil:
			return "action " + args[0] + " does not take " + word
		}
	}
	for _, name := range action.Required {
		if !given[name] && !span {
			return "action " + args[0] + " needs " + name
		}
	}
	return ""
}

func TestJujuCommandsAreFromTheCharm(t *testing.T) {
	w := readJujuWorld(t)
	for _, c := range commands(t, "juju") {
		assert.Empty(t, w.jujuProblem(c.argv, c.span), "%s: %s", c.page, c.line)
	}
}

func TestWrongJujuCommandsAreFound(t *testing.T) {
	w := readJujuWorld(t)
	for line, want := range map[string]string{
		"juju config web tls-enabled=true":                            "",
		"juju config web tls-enabled=perhaps":                         "tls-enabled: ",
		"juju config web web-prot=80":                                 "no option web-prot",
		"juju config web web-port=2222":                               "web-port: 2222",
		"juju config web --reset versoin":                             "no option versoin",
		"juju run web/leader rotate-keys keys=session":                "",
		"juju run web/leader rotate-keys keys=sessions":               "does not take",
		"juju run web/leader rotate-keys key=session":                 "has no parameter key",
		"juju run web rotate-keys keys=all":                           "wants a unit",
		"juju run web/leader rotate-keys":                             "needs keys",
		"juju run web/0 quarantine-gpu gpu=0":                         "needs reason",
		"juju run web/0 explain-error code=two":                       "does not take",
		"juju run web/0 reset-rocm apply=maybe":                       "does not take",
		"juju run web/0 explode":                                      "no action explode",
		"juju integrate rocm-worker:flight web:tsa":                   "",
		"juju integrate web:postgres postgresql:database":             "no endpoint web:postgres",
		"juju attach-resource web concourse=./x.tgz":                  "no resource",
		"juju deploy ./x.charm web --config mode=both":                "mode: ",
		"juju deploy ./x.charm web --resource release=./x.tgz":        "no resource",
		"juju refresh web --resource release=./x.tgz":                 "no resource",
		"juju refresh web --config release-mirorr=http://x":           "no option release-mirorr",
		"juju config web ldap-bind-pw=secret:...":                     "",
		"juju config web ldap-bind-pw=secret:... ldap-host=x.example": "incomplete",
		"juju config web github-token=<one>":                          "",
	} {
		got := w.jujuProblem(simple(line)[0], false)
		if want == "" {
			require.Empty(t, got, line)
		} else {
			require.Contains(t, got, want, line)
		}
	}
}
