package cli

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"
)

// exporterVariable makes this test binary the program dispatch, which reads the exporter at
// the variable's URL. Its arguments are the command line.
const exporterVariable = "TEST_DISPATCH_EXPORTER"

func TestMain(m *testing.M) {
	url := os.Getenv(exporterVariable)
	if url == "" {
		os.Exit(m.Run())
	}
	c := &actions.Actions{Charm: &charm.Charm{Host: host.New(os.TempDir()), ExporterURL: url}}
	os.Exit(runCommand(context.Background(), c, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// console holds a terminal with the programs that run on it. It draws what they write, and
// fails at sequences that it does not have.
type console struct {
	t             *testing.T
	ctx           context.Context // ends with the programs
	person        *os.File        // reads what programs write, and types
	columns, rows int
	pages         [2][][]rune // normal and alternate
	alternate     int
	drawing       bool // between the beginning and the end of a frame
	row, column   int
	saved         [2]int // cursor of the normal page
	colours       int    // sequences
	rest          []byte
	command       *exec.Cmd
}

// startConsole runs a shell script as the leader of a session on a new terminal.
func startConsole(t *testing.T, url, script string, env ...string) *console {
	t.Helper()
	person, program := pseudoTerminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a hanging program fails the test
	t.Cleanup(cancel)
	c := &console{t: t, ctx: ctx, person: person}
	c.resize(80, 24)
	c.command = exec.CommandContext(ctx, "sh", "-c", script)
	c.command.Env = append(os.Environ(), exporterVariable+"="+url, "DISPATCH="+os.Args[0], "TERM=xterm", "NO_COLOR=")
	c.command.Env = append(c.command.Env, env...)
	c.command.Stdin, c.command.Stdout, c.command.Stderr = program, program, program
	c.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, c.command.Start())
	require.NoError(t, program.Close()) // reading ends with the programs
	return c
}

// answer lets the exporter answer a request, see startExporter.
func (c *console) answer(answers chan<- string, container string) {
	c.t.Helper()
	select {
	case answers <- container:
	case <-c.ctx.Done():
		require.Fail(c.t, "the program does not ask the exporter", "%s", c.text())
	}
}

// resize changes the size of the terminal. The kernel signals the program in front.
func (c *console) resize(columns, rows int) {
	c.columns, c.rows = columns, rows
	for p := range c.pages {
		page := make([][]rune, rows)
		for i := range page {
			page[i] = []rune(strings.Repeat(" ", columns))
		}
		c.pages[p] = page
	}
	c.row, c.column = 0, 0
	require.NoError(c.t, unix.IoctlSetWinsize(int(c.person.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: uint16(rows), Col: uint16(columns)}))
}

func (c *console) press(keys string) {
	c.t.Helper()
	_, err := c.person.WriteString(keys)
	require.NoError(c.t, err)
}

// text returns the lines on the screen.
func (c *console) text() string {
	var lines []string
	for _, l := range c.pages[c.alternate] {
		lines = append(lines, strings.TrimRight(string(l), " "))
	}
	return strings.Join(lines, "\n")
}

// until reads what the program writes until a whole frame has all texts.
func (c *console) until(texts ...string) string {
	c.t.Helper()
	buffer := make([]byte, 4096)
	for {
		missing := ""
		for _, text := range texts {
			if !strings.Contains(c.text(), text) {
				missing = text
			}
		}
		if missing == "" && !c.drawing {
			return c.text()
		}
		n, err := c.person.Read(buffer)
		require.NoError(c.t, err, "the screen never has %q:\n%s", missing, c.text())
		c.write(buffer[:n])
	}
}

// write draws output.
func (c *console) write(output []byte) {
	c.rest = append(c.rest, output...)
	for len(c.rest) > 0 {
		n := 0
		switch b := c.rest[0]; {
		case b == 0x1b:
			if n = c.sequence(string(c.rest)); n == 0 {
				return // its end is still to come
			}
		case b == '\n':
			n = 1
			if c.row++; c.row == c.rows {
				page := c.pages[c.alternate]
				c.pages[c.alternate] = append(page[1:], []rune(strings.Repeat(" ", c.columns)))
				c.row--
			}
		case b == '\r':
			c.column, n = 0, 1
		case b == '\b':
			c.column, n = max(0, c.column-1), 1
		default:
			if !utf8.FullRune(c.rest) {
				return
			}
			var r rune
			r, n = utf8.DecodeRune(c.rest)
			c.put(r)
		}
		c.rest = c.rest[n:]
	}
}

func (c *console) put(r rune) {
	if c.column == c.columns {
		require.Fail(c.t, "a line is wider than the terminal")
	}
	c.pages[c.alternate][c.row][c.column] = r
	c.column++
}

// sequence applies an escape sequence and returns its length, 0 if it is not complete.
func (c *console) sequence(text string) int {
	end := strings.IndexFunc(text[1:], func(r rune) bool { return r >= 'A' && r <= 'z' && r != '[' })
	if end < 0 {
		return 0
	}
	n := end + 2
	switch s := text[1:n]; s {
	case "[H":
		c.row, c.column, c.drawing = 0, 0, true
	case "[K": // a full line has its cursor on the last character
		for i := min(c.column, c.columns-1); i < c.columns; i++ {
			c.pages[c.alternate][c.row][i] = ' '
		}
	case "[?1049h":
		if c.alternate == 0 {
			c.saved, c.alternate = [2]int{c.row, c.column}, 1
		}
	case "[?1049l":
		c.alternate, c.row, c.column = 0, c.saved[0], c.saved[1]
	case "[J":
		c.drawing = false
		for _, line := range c.pages[c.alternate][c.row:] {
			for i := range line {
				line[i] = ' '
			}
		}
	default:
		require.Regexp(c.t, `^\[[0-9;]*m$`, s, "the terminal does not know the sequence")
		c.colours++
	}
	return n
}

// cooked reports whether the terminal edits lines and shows what is typed.
func (c *console) cooked() bool {
	t, err := unix.IoctlGetTermios(int(c.person.Fd()), unix.TCGETS)
	require.NoError(c.t, err)
	return t.Lflag&unix.ICANON != 0 && t.Lflag&unix.ECHO != 0 && t.Cc[unix.VSUSP] == 0x1a
}

// requireRestored fails unless the terminal is as the program found it.
func (c *console) requireRestored() {
	c.t.Helper()
	require.Zero(c.t, c.alternate, c.text())
	require.True(c.t, c.cooked(), "keys are not shown")
}
