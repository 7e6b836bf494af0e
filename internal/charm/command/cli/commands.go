package cli

import (
	"fmt"
	"slices"
	"strings"

	"concourse-ci-machine/internal/charm/command/term"
)

// command describes a command of a user. The usage text, its help and the shell completion
// are generated from it.
type command struct {
	words     string   // "gpu list"
	choices   []string // the first argument is one of them
	args      string   // other arguments: "GPU REASON"
	flags     []string // in the usage text; a flag with a value ends with =
	helpFlags []string // flags that only the help of the command lists
	ownHelp   bool     // the command prints --help itself
	text      string
}

// commands lists all commands, in the order of the usage text.
var commands = []command{
	{words: "plan", text: "what the charm would change now, and why; changes nothing"},
	{
		words: "gpu top", flags: []string{"--once"}, helpFlags: []string{"--interval=", "--json"},
		ownHelp: true, text: "who uses each AMD GPU, live; gpu top --help has more",
	},
	{words: "gpu list", flags: asJSON, text: "the unit's GPUs, and those that do not count with the reason"},
	{words: "gpu detect", text: "whose GPUs the unit has, in fixed words"},
	{words: "gpu verify", flags: asJSON, text: "open each GPU's node as a task would; wakes GPUs that sleep"},
	{words: "gpu health", flags: asJSON, text: "state, score and reason of each AMD GPU"},
	{
		words: "gpu status", flags: asJSON,
		text: "who leases each GPU, with gpu-sharing=exclusive, and which GPUs are withheld from tasks",
	},
	{words: "gpu evidence", flags: asJSON, text: "tasks that met faults of GPUs, and whose these are"},
	{words: "gpu withhold", args: "GPU REASON", text: "give a GPU to no new task, until it is returned"},
	{words: "gpu return", args: "GPU", text: "give a withheld GPU to tasks again"},
	{words: "gpu prove", args: "GPU", text: "run gpu-proof on a withheld GPU now, and show what it writes"},
	{
		words: "gpu release", args: "GPU", flags: []string{"--force"},
		text: "free a GPU whose lease is damaged or in doubt",
	},
	{words: "rocm plan", text: "what was seen of the driver of AMD GPUs, and what is decided"},
	{words: "rocm matrix", text: "releases of ROCm and driver that are known to work"},
	{words: "preflight", flags: asJSON, text: "what this machine lacks or has, and what to do about it"},
	{words: "cdi refresh", ownHelp: true, text: "describe the GPUs for tasks anew; restarts nothing"},
	{words: "cdi list", flags: asJSON, ownHelp: true, text: "the GPUs' names for container tools, on any machine"},
	{
		words: "cdi generate", helpFlags: []string{"--output=", "--format=", "--dry-run"},
		ownHelp: true, text: "write their description; cdi generate --help has more",
	},
	{
		words: "cdi validate", args: "[FILE]", helpFlags: []string{"--path=", "--json"}, ownHelp: true,
		text: "whether a description is what the machine has",
	},
	{words: "runtime configure", choices: []string{"docker", "podman", "containerd", "crio"},
		helpFlags: []string{
			"--set-as-default", "--unset-as-default", "--remove", "--restart", "--dry-run",
			"--wrapper=", "--config-path=", "--runtime=",
		},
		ownHelp: true, text: "the GPUs for another container engine; --help has more"},
	{
		words: "kubernetes labels", flags: asJSON, ownHelp: true,
		text: "labels of a node with these GPUs; --help has more",
	},
	{words: "kubernetes manifest", args: "NODE", ownHelp: true, text: "the same for kubectl apply --server-side"},
	{
		words: "fleet", flags: asJSON,
		text: "on the web: all workers, with their GPUs, which of them are withheld, and how many can be leased",
	},
	{words: "pipelines", args: "[FILE]", text: "pipelines and tasks that come with the charm, or one of them"},
	{words: "errors", flags: asJSON, text: "the errors of AMD GPUs, by number"},
	{words: "explain", args: "N", flags: asJSON, text: "what error N means, what causes it, and what to do"},
	{
		words: "completion", choices: []string{"bash", "zsh"},
		text: "a script that lets the shell complete these commands",
	},
	{
		words: "gpu-baseline", args: "--help", ownHelp: true,
		text: "compare profiles of examples within limits, and find the commit that made one worse",
	},
}

var asJSON = []string{"--json"}

// synopsis returns the command with its arguments.
func (c command) synopsis() string {
	s := c.words
	for _, part := range []string{strings.Join(c.choices, "|"), c.args} {
		if part != "" {
			s += " " + part
		}
	}
	for _, f := range c.flags {
		s += " [" + f + "]"
	}
	return s
}

// usage returns the text of --help.
func usage() string {
	const column, width = 32, 60
	var b strings.Builder
	b.WriteString("dispatch is the charm concourse-ci-machine. Juju runs it for hooks and actions.\n" +
		"On a unit, as root, it also answers (dispatch COMMAND --help tells of one alone):\n\n")
	for _, c := range commands {
		left := "  dispatch " + c.synopsis()
		if len(left) > column-2 {
			b.WriteString(left + "\n")
			left = ""
		}
		for _, line := range term.Wrap(c.text, width) {
			fmt.Fprintf(&b, "%-*s%s\n", column, left, line)
			left = ""
		}
	}
	b.WriteString(`  dispatch --version
  dispatch --help

Exit status: 0 done, 1 failed (gpu verify, gpu health and preflight: something is
broken, or there is no GPU to look at), 2 wrong command line.
Environment: CHARM_ROOT=/prefix works on the file tree below /prefix instead of /.
NO_COLOR=1 leaves colours out; only a terminal gets them.
`)
	return b.String()
}

// completion returns the completion script for a shell, "" for an unknown shell.
func completion(shell string) string {
	if shell != "bash" && shell != "zsh" {
		return ""
	}
	after := map[string][]string{} // words that may follow others
	add := func(before string, words ...string) {
		for _, w := range words {
			if !slices.Contains(after[before], w) {
				after[before] = append(after[before], w)
			}
		}
	}
	for _, c := range commands {
		before := ""
		for _, w := range strings.Fields(c.words) {
			add(before, w)
			before = strings.TrimSpace(before + " " + w)
		}
		add(c.words, slices.Concat(c.choices, c.flags, c.helpFlags, []string{"--help"})...)
	}
	add("", "--version", "--help")
	var b strings.Builder
	if shell == "zsh" {
		b.WriteString("autoload -Uz bashcompinit && bashcompinit\n")
	}
	b.WriteString("_dispatch() {\n\tlocal words=\n\tcase \"${COMP_WORDS[*]:1:COMP_CWORD-1}\" in\n")
	var befores []string
	for before := range after {
		befores = append(befores, before)
	}
	slices.SortFunc(befores, func(a, b string) int { return strings.Compare(b, a) }) // the longest first
	for _, before := range befores {
		pattern := fmt.Sprintf("%q", before)
		if strings.Contains(before, " ") { // flags may follow one another
			pattern += "*"
		}
		fmt.Fprintf(&b, "\t%s) words=%q ;;\n", pattern, strings.Join(after[before], " "))
	}
	b.WriteString(
		"\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n\t[[ ${COMPREPLY[0]} " +
			"!= *= ]] || compopt -o nospace 2>/dev/null\n}\n",
	)
	b.WriteString("complete -o default -F _dispatch dispatch ./dispatch\n")
	return b.String()
}

// help returns the text for --help or -h among the arguments: for one command, for a group,
// or for all. It returns "" without such an argument, or if the command has a help text of
// its own flags.
func help(args []string) string {
	if !slices.ContainsFunc(args, func(a string) bool { return a == "--help" || a == "-h" }) {
		return ""
	}
	words := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
	if len(words) == 0 {
		return usage()
	}
	line := strings.Join(words, " ") + " "
	var asked []command
	for _, c := range commands {
		group := len(words) == 1 && strings.HasPrefix(c.words, line)
		if group || strings.HasPrefix(line, c.words+" ") {
			asked = append(asked, c)
		}
	}
	if !slices.ContainsFunc(asked, func(c command) bool { return !c.ownHelp }) {
		return ""
	}
	var b strings.Builder
	for _, c := range asked {
		b.WriteString("Usage: dispatch " + c.synopsis() + "\n")
		for _, l := range term.Wrap(c.text, 74) {
			b.WriteString("  " + l + "\n")
		}
		b.WriteString("\n")
	}
	b.WriteString("Exit status: 0 done, 1 failed, 2 wrong command line.\ndispatch --help has all commands.\n")
	return b.String()
}

// normalizeHelp replaces the word help at the start of the arguments with --help.
func normalizeHelp(args []string) []string {
	if len(args) > 0 && args[0] == "help" {
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}
