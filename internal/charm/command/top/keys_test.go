package top

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

func TestParseKeys(t *testing.T) {
	for input, want := range map[string][]key{
		"":                              nil,
		"qs":                            {'q', 's'},
		"\x1b":                          {keyEscape},
		"\x1b\x1b":                      {keyEscape, keyEscape},
		"\x1bx":                         {keyEscape, 'x'},
		"\x1b[A\x1bOB\x1b[C\x1b[D":      {keyUp, keyDown, keyRight, keyLeft},
		"\x1b[5~\x1b[6~\x1b[1~\x1b[4~q": {keyPageUp, keyPageDown, keyHome, keyEnd, 'q'},
		"\x1b[1;5Aq":                    {'q'}, // Ctrl-Up
		"\x1b[<0;1;1Mq":                 {'q'}, // a mouse
		"\x1b[":                         nil,
		"\x1a\n":                        {keySuspend, '\n'},
	} {
		require.Equal(t, want, parseKeys([]byte(input)), "%q", input)
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte("q\x1b[A\x1bO\x1b[1;5"))
	r := api.Report{GPUs: reportOf(9).GPUs}
	f.Fuzz(func(t *testing.T, input []byte) {
		keys := parseKeys(input)
		require.LessOrEqual(t, len(keys), len(input))
		v := View{}
		for _, k := range keys {
			v.Lines(term.Format{}, Frame{Report: r, Width: 80, Height: 12})
			v.Press(k)
		}
		require.NotEmpty(t, v.Lines(term.Format{}, Frame{Report: r, Width: 80, Height: 12}))
	})
}

// session draws 64 GPUs on 14 rows after each key.
type session struct {
	t *testing.T
	v View
	r api.Report
}

func (s *session) press(keys string) string {
	s.t.Helper()
	s.draw()
	for _, k := range parseKeys([]byte(keys)) {
		require.False(s.t, s.v.Press(k))
		s.draw()
	}
	return s.draw()
}

func (s *session) draw() string {
	return picture(s.t, &s.v, Frame{Report: s.r, Width: 80, Height: 14})
}

// selected returns the line with the cursor.
func selected(screen string) string {
	for line := range strings.SplitSeq(screen, "\n") {
		if strings.HasPrefix(line, cursor) {
			return line
		}
	}
	return ""
}

func TestSelectedGPUIsOnTheScreen(t *testing.T) {
	s := session{t: t, r: reportOf(64)}
	const down, up, pageDown = "\x1b[B", "\x1b[A", "\x1b[6~"
	for _, c := range []struct{ keys, want string }{
		{"", ">  0"}, {up, ">  0"}, {down + "j", ">  2"}, {"k", ">  1"}, {pageDown, ">  9"}, {"G", "> 63"}, {down, "> 63"}, {"\x1b[5~", "> 55"}, {"g", ">  0"},
	} {
		require.True(t, strings.HasPrefix(selected(s.press(c.keys)), c.want), "%q: want %s:\n%s", c.keys, c.want, s.draw())
	}
	require.Contains(t, s.draw(), "1-8 of 64")
	s.press("G")
	s.r.GPUs = s.r.GPUs[:3]
	require.Contains(t, selected(s.draw()), ">  0", "the selected GPU was removed")
}

func TestEachOrder(t *testing.T) {
	s := session{t: t, r: reportOf(8)}
	for _, want := range []string{"load|>  2", "temperature|>  2", "power|>  2", "VRAM|>  2", "state|>  3", "user|>  1", "GPU|>  0"} {
		name, first, _ := strings.Cut(want, "|")
		screen := s.press("s")
		require.Contains(t, screen, "sort: "+name)
		require.Contains(t, selected(screen), first, screen)
	}
	require.Contains(t, s.press("S"), "sort: user")
}

func TestOneGPUIsShown(t *testing.T) {
	s := session{t: t, r: dividedReport(2)}
	require.Contains(t, s.press("\n"), "GPU 0-7")
	require.Contains(t, s.press("\x1b[C"), "GPU 8-15", "the partitions of the first are passed")
	require.Contains(t, s.press("\x1b[C"), "GPU 8-15")
	require.NotContains(t, s.draw(), "\n15 ")
	require.Contains(t, s.press("jjjjjjjjjjjjjjjjj"), "\n15 ", "the last partition")
	require.Contains(t, s.press("\x1b[D"), "GPU 0-7")
	require.Contains(t, selected(s.press("\x1b")), "0-7")
}

func TestPartitionsAreFolded(t *testing.T) {
	s := session{t: t, r: dividedReport(2)}
	require.NotContains(t, s.draw(), "part 1")
	require.Contains(t, s.press("a"), "part 1")
	require.NotContains(t, s.press("a"), "part 1")
}

func TestHelpAndFreeze(t *testing.T) {
	s := session{t: t, r: reportOf(1)}
	require.Contains(t, s.press("h"), "Ctrl-Z ")
	require.Contains(t, s.press("s"), "Ctrl-Z ", "other keys wait")
	require.Contains(t, s.press("?"), "sort: GPU")
	require.Contains(t, s.press(" "), "FROZEN: 0s old")
	require.NotContains(t, s.press("f"), "FROZEN")
	require.True(t, s.v.Press('q'))
}
