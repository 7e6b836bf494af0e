package journeys

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// page holds the blocks of a page in order.
type page struct {
	name   string      // relative to the top of the source
	notRun []exception // of all blocks
	blocks []block
}

// block holds a piece of code on a page.
type block struct {
	line        int    // of its first line
	section     string // its heading
	kind        kind
	text        string
	notRun      []exception
	notCompared string // the reason
	savedAs     string // path of the file with this content
}

// kind classifies a block.
type kind int

const (
	shell  kind = iota // commands
	output             // output of the commands before
	other              // a file or a part of one
)

// exception has the reason why commands with a beginning are not run. All commands have the
// beginning "".
type exception struct{ beginning, reason string }

var (
	marked = regexp.MustCompile(`^<!-- (not run|not compared|saved as|page not run)(?: \(([^)]+)\))?: (\S.*) -->$`)
	anyOf  = regexp.MustCompile(`^<!-- *(not |page|saved)`)
)

// parse returns the blocks of a page. An error names a mark that is wrong or has no block.
func parse(name, text string) (page, error) {
	p := page{name: name}
	var next block // has the marks of the next block
	pending := 0
	add := func(b block) error {
		b.notRun, b.notCompared, b.savedAs = next.notRun, next.notCompared, next.savedAs
		if b.notRun != nil && b.kind != shell || b.notCompared != "" && b.kind != output ||
			b.savedAs != "" && b.kind == shell {
			return fmt.Errorf("%s:%d: the mark is for another kind of block", name, pending)
		}
		p.blocks = append(p.blocks, b)
		next, pending = block{}, 0
		return nil
	}
	section := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		at := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", name, i+1, fmt.Sprintf(format, args...))
		}
		switch m := marked.FindStringSubmatch(line); {
		case m != nil && m[1] == "page not run":
			p.notRun = append(p.notRun, exceptions(m[2], m[3])...)
		case m != nil:
			pending = i + 1
			switch m[1] {
			case "not run":
				next.notRun = append(next.notRun, exceptions(m[2], m[3])...)
			case "not compared":
				next.notCompared = m[3]
			case "saved as":
				next.savedAs = m[3]
			}
		case anyOf.MatchString(line):
			return p, at("the mark cannot be read: %s", line)
		case strings.HasPrefix(line, "```"):
			b := block{line: i + 2, section: section, kind: kindOf(line[3:])}
			for i++; i < len(lines) && lines[i] != "```"; i++ {
				b.text += lines[i] + "\n"
			}
			if err := add(b); err != nil {
				return p, err
			}
		case strings.HasPrefix(line, "    "):
			b := block{line: i + 1, section: section, kind: shell}
			for ; i < len(lines) && strings.HasPrefix(lines[i], "    "); i++ {
				b.text += lines[i][4:] + "\n"
			}
			i--
			if err := add(b); err != nil {
				return p, err
			}
		case pending > 0 && strings.TrimSpace(line) != "":
			return p, fmt.Errorf("%s:%d: the mark is not before a block", name, pending)
		case strings.HasPrefix(line, "#"):
			section = line
		}
	}
	if pending > 0 {
		return p, fmt.Errorf("%s:%d: the mark is not before a block", name, pending)
	}
	return p, nil
}

// exceptions returns the exceptions for a list of beginnings with commas, or for all commands.
func exceptions(beginnings, reason string) (all []exception) {
	for _, beginning := range strings.Split(beginnings, ", ") {
		all = append(all, exception{beginning, reason})
	}
	return all
}

func kindOf(language string) kind {
	switch language {
	case "", "sh":
		return shell
	case "text":
		return output
	}
	return other
}

// commands returns the lines of a block. A line that ends with a backslash continues.
func (b block) commands() (all []string) {
	joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(b.text, "")
	for line := range strings.Lines(joined) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// exception returns the reason why a command of a block is not run, or "".
func (p page) exception(b block, command string) string {
	for _, e := range slices.Concat(b.notRun, p.notRun) {
		if strings.HasPrefix(command, e.beginning) {
			return e.reason
		}
	}
	return ""
}

// pages returns README.md, the tutorials and the how-to pages, in this order.
func pages(t *testing.T) (all []page) {
	t.Helper()
	names := []string{"README.md"}
	for _, folder := range []string{"docs/tutorial", "docs/how-to"} {
		found, err := filepath.Glob(filepath.Join(hosttest.Source(), folder, "*.md"))
		require.NoError(t, err)
		for _, path := range found {
			names = append(names, filepath.Join(folder, filepath.Base(path)))
		}
	}
	for _, name := range names {
		all = append(all, readPage(t, name))
	}
	return all
}

// part returns the page with the blocks of the journey's part alone.
func (j journey) part(p page) page {
	in, blocks := j.from == "", p.blocks
	p.blocks = nil
	for _, b := range blocks {
		in = (in || b.section == j.from) && b.section != j.to
		if in {
			p.blocks = append(p.blocks, b)
		}
	}
	return p
}

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(hosttest.Source(), name))
	require.NoError(t, err)
	p, err := parse(name, string(text))
	require.NoError(t, err)
	return p
}

func TestBlocksOfAPageAreFound(t *testing.T) {
	p, err := parse("a.md", `# A

<!-- page not run (telnet): not at home -->

Text with `+"`code`"+`.

    one \
        --flag
    # a comment
    two

It shows:

`+"```text\nout\n```"+`

<!-- not run: needs a cloud -->

    three

## B

<!-- not run (juju deploy, juju integrate): needs a cloud -->
<!-- not run (curl): needs the internet -->

    juju deploy x
    juju config x

<!-- saved as: /etc/x.yml -->

`+"```yaml\na: 1\n```\n")
	require.NoError(t, err)
	require.Len(t, p.blocks, 5)
	require.Equal(t, []string{"one --flag", "two"}, p.blocks[0].commands())
	require.Equal(t, block{line: 15, section: "# A", kind: output, text: "out\n"}, p.blocks[1])
	require.Equal(t, "needs a cloud", p.exception(p.blocks[2], "three"))
	require.Equal(t, "needs a cloud", p.exception(p.blocks[3], "juju deploy x"))
	require.Equal(t, "needs a cloud", p.exception(p.blocks[3], "juju integrate x y"))
	require.Equal(t, "not at home", p.exception(p.blocks[3], "telnet x"))
	require.Empty(t, p.exception(p.blocks[3], "juju config x"))
	require.Equal(t, "## B", p.blocks[4].section)
	require.Equal(t, "/etc/x.yml", p.blocks[4].savedAs)
	require.Equal(t, "a: 1\n", p.blocks[4].text)
}

func TestMarkWithoutABlockIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"<!-- not run: why -->\n\ntext\n":         "a.md:1: the mark is not before a block",
		"text\n\n<!-- not compared: why -->\n":    "a.md:3: the mark is not before a block",
		"<!-- not run -->\n\n    a\n":             "a.md:1: the mark cannot be read: <!-- not run -->",
		"<!-- not run (juju) why -->\n\n    a\n":  "a.md:1: the mark cannot be read: <!-- not run (juju) why -->",
		"<!-- not compared: why -->\n\n    a\n":   "a.md:1: the mark is for another kind of block",
		"<!-- not run: why -->\n\n```text\n```\n": "a.md:1: the mark is for another kind of block",
		"<!-- saved as: /a -->\n\n    a\n":        "a.md:1: the mark is for another kind of block",
	} {
		_, err := parse("a.md", text)
		require.EqualError(t, err, want, text)
	}
}

// Each block of a page is run by a journey, or the page has the reason.
func TestEveryBlockIsRunOrHasAReason(t *testing.T) {
	journeys := map[string]int{} // commands
	for _, j := range route {
		journeys[j.page] += j.part(readPage(t, j.page)).count().run
	}
	all := newCounts()
	for _, p := range pages(t) {
		c := p.count()
		t.Log(c.line(p.name))
		all.add(c)
		require.Equal(t, c.run, journeys[p.name], "%s: journeys run each command of a page once; a page needs one, "+
			"or the mark <!-- page not run: REASON -->", p.name)
		requireMatch(t, p.name, p.notRun, p.blocks...)
		for _, b := range p.blocks {
			requireMatch(t, fmt.Sprintf("%s:%d", p.name, b.line), b.notRun, b)
		}
	}
	for reason, n := range all.reasons {
		t.Logf("%4d not run: %s", n, reason)
		for _, folder := range folder.FindAllString(reason, -1) {
			require.DirExists(t, filepath.Join(hosttest.Source(), folder), reason)
		}
	}
	for _, j := range route {
		p := readPage(t, j.page)
		c := p.count()
		all := c.run + c.marked()
		require.GreaterOrEqual(t, c.run*100, all*j.percent, "%s: %d of %d commands run", j.page, c.run, all)
	}
	t.Log(all.line("all pages"))
}

// folder matches the suite in a reason that runs the commands instead.
var folder = regexp.MustCompile(`\b(?:tests|internal)/[a-z/]+`)

// requireMatch requires that each exception has a command in the blocks.
func requireMatch(t *testing.T, at string, notRun []exception, blocks ...block) {
	t.Helper()
	for _, e := range notRun {
		begins := func(command string) bool { return strings.HasPrefix(command, e.beginning) }
		has := func(b block) bool { return b.kind == shell && slices.ContainsFunc(b.commands(), begins) }
		require.True(t, slices.ContainsFunc(blocks, has), "%s: no command begins with %s", at, e.beginning)
	}
}

// An output belongs to the commands before it in its section. Their reason also
// applies to the output.
func TestEveryOutputHasItsCommand(t *testing.T) {
	for _, j := range route {
		p, section, commands := readPage(t, j.page), "", 0
		for _, b := range p.blocks {
			if b.section != section {
				section, commands = b.section, 0
			}
			if b.kind == shell {
				commands = len(b.commands())
			}
			require.False(t, b.kind == output && b.savedAs == "" && b.notCompared == "" && commands == 0,
				"%s:%d: no command of the section prints this; name the reason: <!-- not compared: REASON -->", p.name, b.line)
		}
	}
}

// counts has numbers of commands of a page.
type counts struct {
	run     int
	reasons map[string]int // of commands that are not run
}

func newCounts() counts { return counts{reasons: map[string]int{}} }

func (c *counts) add(more counts) {
	c.run += more.run
	for reason, n := range more.reasons {
		c.reasons[reason] += n
	}
}

func (p page) count() counts {
	c := newCounts()
	for _, b := range p.blocks {
		if b.kind != shell {
			continue
		}
		for _, command := range b.commands() {
			if reason := p.exception(b, command); reason != "" {
				c.reasons[reason]++
			} else {
				c.run++
			}
		}
	}
	return c
}

func (c counts) marked() (n int) {
	for _, one := range c.reasons {
		n += one
	}
	return n
}

func (c counts) line(name string) string {
	return fmt.Sprintf("%-45s %3d commands run, %3d marked, %3d in all", name, c.run, c.marked(), c.run+c.marked())
}
