package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	usageCommand = regexp.MustCompile(`(?m)^  dispatch ([a-z-]+)(?: ([a-z|-]+))?(?: ([a-z|-]+))?`)
	usageFlag    = regexp.MustCompile(`(?m)^  (--[a-z-]+=?)`)
	usageOption  = regexp.MustCompile(`(?m)^  dispatch ([a-z-]+(?: [a-z-]+)?)(?: [A-Z]+)? \[(--[a-z]+)\]`)
)

// completion is a script for a shell, made of the usage texts: what they name, it
// completes. "" is for a shell that is not known.
func completion(shell string) string {
	if shell != "bash" && shell != "zsh" {
		return ""
	}
	after := map[string][]string{} // words that may follow others
	add := func(before string, words string) {
		for w := range strings.SplitSeq(words, "|") {
			if w != "" && !slices.Contains(after[before], w) {
				after[before] = append(after[before], w)
			}
		}
	}
	for _, m := range usageCommand.FindAllStringSubmatch(usage, -1) {
		add("", m[1])
		add(m[1], m[2])
		add(strings.TrimSpace(m[1]+" "+m[2]), m[3])
	}
	for _, m := range usageOption.FindAllStringSubmatch(usage, -1) {
		add(m[1], m[2])
	}
	for command, text := range map[string]string{"gpu top": topUsage, "cdi list": cdiListUsage, "cdi generate": cdiGenerateUsage, "cdi validate": cdiValidateUsage, "runtime configure": runtimeUsage} {
		for _, m := range usageFlag.FindAllStringSubmatch(text, -1) {
			add(command, m[1])
		}
	}
	for _, command := range commands() {
		add(command, "--help")
	}
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
