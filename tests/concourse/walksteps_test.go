//go:build e2e

package concourse

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// walkStep is one step of a walk, written as kind and arguments.
type walkStep struct {
	kind string
	args string
}

func (s walkStep) String() string { return strings.TrimSpace(s.kind + " " + s.args) }

// formatSteps returns steps as a word of a shell.
func formatSteps(steps []walkStep) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.String())
	}
	return "'" + strings.ReplaceAll(strings.Join(all, "; "), "'", `'\''`) + "'"
}

func parseSteps(text string) (steps []walkStep) {
	for part := range strings.SplitSeq(text, ";") {
		kind, args, _ := strings.Cut(strings.TrimSpace(part), " ")
		steps = append(steps, walkStep{kind, args})
	}
	return steps
}

// walkOptions are the options of a walk with valid values, the default first.
var walkOptions = map[string][]string{
	"mode":                         {"all", "web"},
	"compute-runtime":              {"auto", "rocm", "none"},
	"log-level":                    {"info", "debug", "error"},
	"web-port":                     {"8080", "8081"},
	"enable-metrics":               {"false", "true"},
	"fleet-page":                   {"names", "anonymous", "off"},
	"container-placement-strategy": {"volume-locality", "random", "fewest-build-containers,volume-locality"},
	"secret-cache-enabled":         {"false", "true"},
	"gc-failed-grace-period":       {"", "1h"},
	"extra-web-flags":              {"", "--max-active-tasks-per-worker=0"},
	"gpu-sharing":                  {"shared", "exclusive"},
	"gpu-quarantine":               {"auto", "off"},
	"gpu-metrics":                  {"usage,pcie-bandwidth", "usage", "pcie-bandwidth"},
	"tag":                          {"", "lab", "lab,night"},
	"task-env":                     {"", "A=B", `HIP_ARCHES=gfx90a C="d e"`},
	"srv-folders":                  {"all", "none", "models"},
	"containerd-dns-proxy-enable":  {"false", "true"},
	"worker-drain-timeout":         {"20s", "0s", "5s"},
	"task-record-size":             {"512", "16", "0"},
}

// walkServices are the services that a step may kill, and that start again by themselves.
var walkServices = []string{"concourse-server", "concourse-worker", "concourse-pebble", "rocm-exporter", "concourse-exporter",
	"postgresql"}

// wrongCommands must change nothing and fail.
var wrongCommands = []string{"set gpu-sharing=many", "set web-prt=80", "set web-port=0", "reset nope", "upgrade 9.9.9",
	"set mode=worker", "prune-worker"}

// begun returns the steps that end what the taken steps began: a machine that is down, a full disk,
// a GPU that is away, lies or is not in service. Such a machine has fewer rules to break.
func begun(taken []walkStep) (ends []walkStep) {
	open := map[walkStep]bool{}
	for _, s := range taken {
		up, free := walkStep{kind: "up"}, walkStep{kind: "free"}
		show, heal, back := walkStep{"show", s.args}, walkStep{"heal", s.args}, walkStep{"return", s.args}
		switch s.kind {
		case "down":
			open[up] = true
		case "cut":
			open[up] = open[up] || strings.HasSuffix(s.args, " down")
		case "fill":
			open[free] = true
		case "hide":
			open[show], open[back] = true, true
		case "lie":
			open[heal], open[back] = true, true
		case "return":
			open[s] = open[show] || open[heal]
		default:
			open[s] = false
		}
	}
	for s, isOpen := range open {
		if isOpen {
			ends = append(ends, s)
		}
	}
	slices.SortFunc(ends, func(a, b walkStep) int { return strings.Compare(a.String(), b.String()) })
	return ends
}

// randomStep returns the next step. A third of all steps change options, mostly two.
func randomStep(r *rand.Rand, taken []walkStep, withBuilds bool) walkStep {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	names := slices.Sorted(maps.Keys(walkOptions))
	setting := func() string {
		name := pick(names)
		value := pick(walkOptions[name])
		return fmt.Sprintf("%s='%s'", name, value)
	}
	kinds := []string{"set", "set", "set", "set", "set", "set", "set", "set", "reset", "up", "down", "hide", "show", "lie", "heal", "return",
		"kill", "kill", "cut", "reboot", "fill", "free", "wrong"}
	if withBuilds {
		kinds = append(kinds, "build", "build", "begin")
	}
	if ends := begun(taken); len(ends) > 0 && r.IntN(2) == 0 {
		return ends[r.IntN(len(ends))]
	}
	s := walkStep{kind: pick(kinds)}
	switch s.kind {
	case "set":
		s.args = setting()
		if r.IntN(3) > 0 {
			if second := setting(); strings.SplitN(second, "=", 2)[0] != strings.SplitN(s.args, "=", 2)[0] {
				s.args += " " + second
			}
		}
	case "reset":
		s.args = pick(slices.DeleteFunc(names, func(n string) bool { return walkOptions[n][0] == "20s" || n == "compute-runtime" }))
	case "hide", "show", "lie", "heal", "return":
		s.args = pick([]string{"renderD128", "renderD129"})
	case "kill":
		s.args = pick(walkServices)
	case "cut":
		s.args = fmt.Sprintf("%d %s", 1+r.IntN(8), pick([]string{"up", "down", "set " + setting()}))
	case "wrong":
		s.args = pick(wrongCommands)
	}
	return s
}
