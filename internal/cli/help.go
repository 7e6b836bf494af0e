package cli

import (
	"regexp"
	"slices"
	"strings"

	"concourse-ci-machine/internal/term"
)

// usageEntry is a command of the usage text, with what is said of it on its line and on
// those below.
var usageEntry = regexp.MustCompile(`(?m)^  dispatch ((?:[^ \n]+ ?)+)( .*(?:\n {5,}.*)*|\n {5,}.*(?:\n {5,}.*)*)?$`)

// ownHelp are commands with usage texts of their own.
var ownHelp = []string{"gpu top", "cdi", "runtime", "gpu-baseline"}

// entry is one command: "gpu list [--json]" and what it does.
type entry struct{ synopsis, text string }

// words are the command's, without what it takes.
func (e entry) words() []string {
	all := strings.Fields(e.synopsis)
	if end := slices.IndexFunc(all, func(w string) bool { return w[0] < 'a' || w[0] > 'z' || strings.Contains(w, "|") }); end >= 0 {
		return all[:end]
	}
	return all
}

func entries() (all []entry) {
	for _, m := range usageEntry.FindAllStringSubmatch(usage, -1) {
		all = append(all, entry{strings.TrimSpace(m[1]), strings.Join(strings.Fields(m[2]), " ")})
	}
	return all
}

// commands are those of the usage text, as they are typed.
func commands() (all []string) {
	for _, e := range entries() {
		if words := strings.Join(e.words(), " "); words != "" && !slices.Contains(all, words) {
			all = append(all, words)
		}
	}
	return all
}

// help is what is asked for with --help or -h among the arguments, or with help as the
// first: on one command, on those of a group, or on all. It is "" where nothing is asked
// for, or the command answers by itself.
func help(args []string) string {
	asked := slices.IndexFunc(args, func(a string) bool { return a == "--help" || a == "-h" })
	if asked < 0 && args[0] != "help" {
		return ""
	}
	words := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
	if len(words) > 0 && words[0] == "help" {
		words = words[1:]
	}
	if len(words) == 0 {
		return usage
	}
	line := strings.Join(words, " ") + " "
	if slices.ContainsFunc(ownHelp, func(own string) bool { return strings.HasPrefix(line, own+" ") }) {
		return ""
	}
	var group, exact []entry
	for _, e := range entries() {
		command := strings.Join(e.words(), " ") + " "
		if command != " " && strings.HasPrefix(line, command) {
			exact = append(exact, e)
		}
		if len(words) == 1 && command != line && strings.HasPrefix(command, line) {
			group = append(group, e)
		}
	}
	return write(append(group, exact...))
}

// write is the help on some commands; "" for none.
func write(all []entry) string {
	var b strings.Builder
	for _, e := range all {
		b.WriteString("Usage: dispatch " + e.synopsis + "\n")
		for _, l := range term.Wrap(e.text, 74) {
			b.WriteString("  " + l + "\n")
		}
		b.WriteString("\n")
	}
	if b.Len() > 0 {
		b.WriteString("Exit status: 0 done, 1 failed, 2 wrong command line.\ndispatch --help has all commands.\n")
	}
	return b.String()
}
