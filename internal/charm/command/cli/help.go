package cli

import (
	"slices"
	"strings"

	"concourse-ci-machine/internal/charm/command/term"
)

// help is what is asked for with --help or -h among the arguments: on one command, on those
// of a group, or on all. It is "" where nothing is asked for, or who is asked answers itself.
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

// spelled is the command line with the word help first as one with --help.
func normalizeHelp(args []string) []string {
	if len(args) > 0 && args[0] == "help" {
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}
