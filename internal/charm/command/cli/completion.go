package cli

import (
	"fmt"
	"slices"
	"strings"
)

// completion is a script for a shell, which completes commands. "" is for a shell that is not known.
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
	b.WriteString("\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n\t[[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null\n}\n")
	b.WriteString("complete -o default -F _dispatch dispatch ./dispatch\n")
	return b.String()
}
