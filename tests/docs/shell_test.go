package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// typed is a command that a page shows for typing.
type typed struct {
	page string
	line string   // as the page has it
	argv []string // one simple command of the line: without sudo, variables and redirections
	span bool     // in running text, which may lack its arguments
}

// fenced are the blocks between fences, with their language.
var fenced = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// blockLines are the lines of a page that are commands: in blocks that are indented by four
// or have no language but the shell's. A line that ends in a backslash goes on with the
// next.
func blockLines(md string) (out []string) {
	prose := fenced.ReplaceAllStringFunc(md, func(block string) string {
		m := fenced.FindStringSubmatch(block)
		if m[1] != "" && m[1] != "sh" {
			return ""
		}
		return "    " + strings.ReplaceAll(m[2], "\n", "\n    ") + "\n"
	})
	prose = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(prose, "")
	for line := range strings.Lines(prose) {
		if rest, ok := strings.CutPrefix(line, "    "); ok && strings.TrimSpace(rest) != "" {
			out = append(out, strings.TrimSpace(rest))
		}
	}
	return out
}

// commands are all commands of all pages. In running text only those count with a program
// that is one of the given.
func commands(t *testing.T, programs ...string) (out []typed) {
	t.Helper()
	add := func(page, line string, span bool) {
		for _, argv := range simple(line) {
			for _, p := range programs {
				if argv[0] == p && (!span || len(argv) > 1) {
					out = append(out, typed{page, line, argv, span})
				}
			}
		}
	}
	for page, md := range pages(t) {
		for _, line := range blockLines(md) {
			add(page, line, false)
		}
		for line := range strings.Lines(fenced.ReplaceAllString(md, "")) {
			if strings.HasPrefix(line, "    ") {
				continue
			}
			for _, span := range spans(line) {
				add(page, span, true)
			}
		}
	}
	require.NotEmpty(t, out, "no page has a command of %v", programs)
	return out
}

// simple takes a line of shell apart: its simple commands as words, without
// comments, redirections, `sudo` and variables before the program. It knows
// quotes and | && ; and > and no more of the shell.
func simple(line string) (out [][]string) {
	var argv []string
	var word strings.Builder
	inWord, quote, drop := false, rune(0), false
	endWord := func() {
		switch w := word.String(); {
		case !inWord:
		case drop:
			drop = false
		case len(argv) == 0 && (w == "sudo" || variable.MatchString(w)):
		default:
			argv = append(argv, w)
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(argv) > 0 {
			out = append(out, argv)
		}
		argv = nil
	}
	angle := 0
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0, angle > 0 && r != '>':
			word.WriteRune(r)
		case angle == 0 && (r == '"' || r == '\''):
			quote, inWord = r, true
		case r == '#' && !inWord:
			endCommand()
			return out
		case r == ' ':
			endWord()
		case r == '<': // <what people fill in>: no page reads from a file
			angle++
			inWord = true
			word.WriteRune(r)
		case r == '>' && angle > 0:
			angle--
			word.WriteRune(r)
		case r == '>':
			endWord()
			drop = true
		case r == '|' || r == ';' || r == '&':
			endCommand()
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	endCommand()
	return out
}

var variable = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*=`)

func TestLinesOfShellAreTakenApart(t *testing.T) {
	for line, want := range map[string][][]string{
		"juju run w/0 plan":                        {{"juju", "run", "w/0", "plan"}},
		"sudo X=1 a --b='c d' # e | f":             {{"a", "--b=c d"}},
		"curl -s http://x:1/y | jq . && z > f.txt": {{"curl", "-s", "http://x:1/y"}, {"jq", "."}, {"z"}},
		`a "b | c" "" w#d`:                         {{"a", "b | c", "", "w#d"}},
		"a <the b's name> c":                       {{"a", "<the b's name>", "c"}},
		"a x=<b or c>":                             {{"a", "x=<b or c>"}},
		"# only a comment":                         nil,
	} {
		require.Equal(t, want, simple(line), line)
	}
	md := "text `span`\n\n    one \\\n        two\n\n```sh\nthree\n```\n\n```text\nfour\n```\n"
	require.Equal(t, []string{"one two", "three"}, blockLines(md))
}
