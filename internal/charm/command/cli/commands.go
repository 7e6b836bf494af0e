package cli

import (
	"fmt"
	"strings"

	"concourse-ci-machine/internal/charm/command/term"
)

// command is one that people type. The usage text, the help on it and the shell's
// completion are made of it.
type command struct {
	words   string   // "gpu list"
	choices []string // one of them follows
	args   string   // what else follows: "GPU REASON"
	flags   []string // that its line shows; those that take a value end with =
	helpFlags    []string // flags that only its own help tells of
	ownHelp     bool     // it answers --help itself
	text    string
}

// commands are all, in the order of the usage text.
var commands = []command{
	{words: "plan", text: "what the charm would change now, and why; changes nothing"},
	{words: "gpu top", flags: []string{"--once"}, helpFlags: []string{"--interval=", "--json"}, ownHelp: true, text: "who uses each AMD GPU, live; gpu top --help has more"},
	{words: "gpu list", flags: asJSON, text: "the unit's GPUs, and those that do not count with the reason"},
	{words: "gpu detect", text: "whose GPUs the unit has, in fixed words"},
	{words: "gpu verify", flags: asJSON, text: "open each GPU's node as a task would; wakes GPUs that sleep"},
	{words: "gpu health", flags: asJSON, text: "state, score and reason of each AMD GPU"},
	{words: "gpu status", flags: asJSON, text: "who leases each GPU, with gpu-sharing=exclusive, and which GPUs are withheld from tasks"},
	{words: "gpu evidence", flags: asJSON, text: "tasks that met faults of GPUs, and whose these are"},
	{words: "gpu withhold", args: "GPU REASON", text: "give a GPU to no new task, until it is returned"},
	{words: "gpu return", args: "GPU", text: "give a withheld GPU to tasks again"},
	{words: "gpu prove", args: "GPU", text: "run gpu-proof on a withheld GPU now, and show what it writes"},
	{words: "gpu release", args: "GPU", flags: []string{"--force"}, text: "free a GPU whose lease is damaged or in doubt"},
	{words: "rocm plan", text: "what was seen of the driver of AMD GPUs, and what is decided"},
	{words: "rocm matrix", text: "releases of ROCm and driver that are known to work"},
	{words: "preflight", flags: asJSON, text: "what this machine lacks or has, and what to do about it"},
	{words: "cdi refresh", ownHelp: true, text: "describe the GPUs for tasks anew; restarts nothing"},
	{words: "cdi list", flags: asJSON, ownHelp: true, text: "the GPUs' names for container tools, on any machine"},
	{words: "cdi generate", helpFlags: []string{"--output=", "--format=", "--dry-run"}, ownHelp: true, text: "write their description; cdi generate --help has more"},
	{words: "cdi validate", args: "[FILE]", helpFlags: []string{"--path=", "--json"}, ownHelp: true, text: "whether a description is what the machine has"},
	{words: "runtime configure", choices: []string{"docker", "podman", "containerd", "crio"},
		helpFlags: []string{"--set-as-default", "--unset-as-default", "--remove", "--restart", "--dry-run", "--wrapper=", "--config-path=", "--runtime="},
		ownHelp:  true, text: "the GPUs for another container engine; --help has more"},
	{words: "kubernetes labels", flags: asJSON, ownHelp: true, text: "labels of a node with these GPUs; --help has more"},
	{words: "kubernetes manifest", args: "NODE", ownHelp: true, text: "the same for kubectl apply --server-side"},
	{words: "fleet", flags: asJSON, text: "on the web: all workers, with their GPUs, which of them are withheld, and how many can be leased"},
	{words: "pipelines", args: "[FILE]", text: "pipelines and tasks that come with the charm, or one of them"},
	{words: "errors", flags: asJSON, text: "the errors of AMD GPUs, by number"},
	{words: "explain", args: "N", flags: asJSON, text: "what error N means, what causes it, and what to do"},
	{words: "completion", choices: []string{"bash", "zsh"}, text: "a script that lets the shell complete these commands"},
	{words: "gpu-baseline", args: "--help", ownHelp: true, text: "compare profiles of examples within limits, and find the commit that made one worse"},
}

var asJSON = []string{"--json"}

// synopsis is the command with what follows.
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

// usage is what --help tells.
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
