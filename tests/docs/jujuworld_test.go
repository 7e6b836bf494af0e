package docs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/charm/config"
)

// jujuCommands are the commands of Juju that pages use, with the flags that they may use;
// one that takes a value ends in "=". TestJujuCommandsAreThoseOfBothClients holds them to
// the clients of Juju 3.6 and of Juju 4.
var jujuCommands = map[string]string{
	"add-model":          "",
	"add-secret":         "",
	"add-unit":           "-n=",
	"attach-resource":    "",
	"config":             "--reset=",
	"consume":            "",
	"debug-log":          "--include= --replay",
	"deploy":             "--config= --channel= --resource= --base= -n= --to= --constraints=",
	"destroy-controller": "--destroy-all-models --destroy-storage",
	"download":           "",
	"expose":             "",
	"grant-secret":       "",
	"integrate":          "",
	"refresh":            "--path= --revision= --channel= --resource= --config=",
	"remove-application": "--no-prompt",
	"remove-unit":        "--no-prompt",
	"run":                "",
	"show-model":         "",
	"ssh":                "",
	"add-ssh-key":        "",
	"status":             "--relations",
}

// Applications of this charm on the pages, and ends of others: the role and the
// interface, as their own pages have it. Ends that never meet this charm's have
// none.
var (
	ours   = []string{"web", "worker", "rocm-worker", "cuda-worker", "pr-worker", "ci", "concourse-ci"}
	theirs = map[string]string{
		"postgresql:database":                                 "provides postgresql_client",
		"haproxy:haproxy-route":                               "provides haproxy-route",
		"haproxy:receive-ca-certs":                            "requires certificate_transfer",
		"haproxy:certificates":                                "requires tls-certificates",
		"self-signed-certificates:certificates":               "provides tls-certificates",
		"vault:vault-kv":                                      "provides vault-kv",
		"self-signed-certificates":                            "provides tls-certificates",
		"self-signed-certificates:send-ca-cert":               "provides certificate_transfer",
		"prometheus:metrics-endpoint":                         "requires prometheus_scrape",
		"opentelemetry-collector:cos-agent":                   "requires cos_agent",
		"opentelemetry-collector:receive-traces":              "provides tracing",
		"opentelemetry-collector:send-traces":                 "",
		"ldap-integrator:ldap":                                "provides ldap",
		"tempo":                                               "",
		"tempo:tracing":                                       "provides tracing",
		"opentelemetry-collector:send-remote-write":           "",
		"opentelemetry-collector:send-loki-logs":              "",
		"loki-logging":                                        "",
		"opentelemetry-collector:grafana-dashboards-provider": "",
		"prometheus-receive-remote-write":                     "",
		"grafana-dashboards":                                  "",
	}
)

// otherOptions are options of other charms that pages set, as their own files have them.
var otherOptions = map[string][]string{
	"ldap-integrator": {"urls", "base_dn", "starttls", "bind_dn", "bind_password"},
}

// jujuWorld is what the charm's files say.
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
	Endpoints map[string]string // to "provides <interface>" or "requires <interface>"
	Resources map[string]any
}

func readJujuWorld(t *testing.T) (w jujuWorld) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "config.yaml")), &w))
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "actions.yaml")), &w.Actions))
	var meta struct {
		Requires, Provides map[string]struct{ Interface string }
		Resources          map[string]any
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "metadata.yaml")), &meta))
	w.Resources, w.Endpoints = meta.Resources, map[string]string{}
	for name, e := range meta.Provides {
		w.Endpoints[name] = "provides " + e.Interface
	}
	for name, e := range meta.Requires {
		w.Endpoints[name] = "requires " + e.Interface
	}
	return w
}

// jujuProblem says what is wrong with a command of juju, "" where nothing is.
func (w jujuWorld) jujuProblem(argv []string, span bool) string {
	verb := argv[1]
	known, ok := jujuCommands[verb]
	if !ok {
		return "this test does not know juju " + verb
	}
	if verb == "ssh" {
		if len(argv) < 3 || !unitName.MatchString(argv[2]) {
			return "juju ssh wants a unit first"
		}
		return ""
	}
	var args []string
	flags := map[string][]string{}
	for i := 2; i < len(argv); i++ {
		if !strings.HasPrefix(argv[i], "-") {
			args = append(args, argv[i])
			continue
		}
		name, value, joined := strings.Cut(argv[i], "=")
		switch {
		case slices.Contains(strings.Fields(known), name):
		case !slices.Contains(strings.Fields(known), name+"="):
			return "this test does not know the flag " + name
		case !joined && i+1 == len(argv):
			return name + " has no value"
		case !joined:
			i++
			value = argv[i]
		}
		flags[name] = append(flags[name], value)
	}
	if len(args) == 0 {
		if span || verb == "status" || verb == "debug-log" {
			return ""
		}
		return "juju " + verb + " of what?"
	}
	app := args[0]
	switch verb {
	case "deploy":
		if !strings.HasSuffix(args[0], ".charm") {
			return ""
		}
		if len(args) != 2 || !slices.Contains(ours, args[1]) {
			return "the charm is deployed under a name that this test does not know"
		}
		return w.givenProblem(flags)
	case "config":
		if other, ok := otherOptions[app]; ok {
			for _, word := range args[1:] {
				if name, _, _ := strings.Cut(word, "="); !slices.Contains(other, name) {
					return "no option " + name
				}
			}
			return ""
		}
		if !slices.Contains(ours, app) && !strings.HasPrefix(app, "<") {
			return "no application of this charm: " + app
		}
		for _, list := range flags["--reset"] {
			for name := range strings.SplitSeq(list, ",") {
				if _, ok := w.Options[name]; !ok && !placeholder(name) {
					return "no option " + name
				}
			}
		}
		return w.optionsProblem(args[1:])
	case "run":
		if !unitName.MatchString(app) {
			return "juju run wants a unit first, not " + app
		}
		return w.actionProblem(args[1:], span)
	case "attach-resource":
		if len(args) != 2 {
			return "wants an application and a resource"
		}
		return w.resourceProblem(args[1])
	case "add-unit", "expose", "grant-secret", "refresh":
		app := args[len(args)-1]
		if _, other := otherOptions[app]; verb == "grant-secret" && other {
			return ""
		}
		if !slices.Contains(ours, app) && !placeholder(app) {
			return "no application of this charm: " + app
		}
		return w.givenProblem(flags)
	case "integrate":
		if len(args) != 2 {
			return "wants two ends"
		}
		return w.relationProblem(args[0], args[1])
	}
	return ""
}

var unitName = regexp.MustCompile(`^(<[^<>]+>|[a-z][a-z0-9-]*)/(\d+|leader)$`)

// placeholder tells what people fill in from what they type as it is.
func placeholder(s string) bool { return strings.Contains(s, "...") || strings.Contains(s, "<") }

// givenProblem is about what a deployment or a refresh brings along.
func (w jujuWorld) givenProblem(flags map[string][]string) string {
	for _, r := range flags["--resource"] {
		if problem := w.resourceProblem(r); problem != "" {
			return problem
		}
	}
	return w.optionsProblem(flags["--config"])
}

func (w jujuWorld) resourceProblem(arg string) string {
	name, file, _ := strings.Cut(arg, "=")
	if _, ok := w.Resources[name]; !ok || file == "" {
		return "no resource as in " + arg
	}
	return ""
}

// optionsProblem holds NAME=VALUE words against config.yaml and against what
// the charm itself says of the values, all of a command together.
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

// relationProblem wants an endpoint of this charm and one that fits, both named
// as <application>:<endpoint>, as they are here.
func (w jujuWorld) relationProblem(a, b string) string {
	end := func(name string) (string, bool) {
		app, endpoint, _ := strings.Cut(name, ":")
		if slices.Contains(ours, app) || placeholder(app) && w.Endpoints[endpoint] != "" {
			e, ok := w.Endpoints[endpoint]
			return e, ok
		}
		e, ok := theirs[name]
		return e, ok
	}
	ea, oka := end(a)
	eb, okb := end(b)
	if placeholder(a) && !oka || placeholder(b) && !okb {
		return ""
	}
	if !oka || !okb {
		return "this test knows no such endpoint"
	}
	ra, ia, _ := strings.Cut(ea, " ")
	rb, ib, _ := strings.Cut(eb, " ")
	if ia != ib || ra == rb && ra != "" {
		return "they do not fit: " + ea + " and " + eb
	}
	return ""
}
