package top

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
)

// Screen draws on a terminal and reads its keys. The terminal's previous content returns
// with leave.
type Screen struct {
	in, out *os.File      // in is nil if its keys cannot be read
	saved   *unix.Termios // of in
}

// NewScreen returns the screen of the terminal out. Keys are read if in is a terminal too.
func NewScreen(in, out *os.File) *Screen {
	s := &Screen{out: out}
	if in == nil {
		return s
	}
	if saved, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err == nil {
		s.in, s.saved = in, saved
	}
	return s
}

const (
	alternate, normal  = "\x1b[?1049h", "\x1b[?1049l"
	hideCursor, showIt = "\x1b[?25l", "\x1b[?25h"
	noWrap, wrap       = "\x1b[?7l", "\x1b[?7h"
	home, endLine      = "\x1b[H", "\x1b[K"
)

// enter switches to the alternate screen and reads each key at once. Ctrl-C remains a
// signal, which also reaches the parents of this process, such as sudo. Ctrl-Z becomes a
// key, because Go cannot give a caught SIGTSTP its default effect back.
func (s *Screen) enter() error {
	if s.in != nil {
		t := *s.saved
		t.Lflag &^= unix.ICANON | unix.ECHO
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
		t.Cc[unix.VSUSP] = 0 // _POSIX_VDISABLE of Linux
		if err := unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, &t); err != nil {
			return err
		}
	}
	_, err := s.out.WriteString(alternate + hideCursor + noWrap)
	return err
}

// restore restores the terminal.
func (s *Screen) restore() error {
	_, err := s.out.WriteString(wrap + showIt + normal)
	if s.in != nil {
		if e := unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, s.saved); err == nil {
			err = e
		}
	}
	return err
}

// suspend stops this process and its parents in the foreground, as Ctrl-Z does, and returns
// when the shell continues them. The kernel ignores the signal if no shell could do so.
func (s *Screen) suspend() error {
	if err := s.restore(); err != nil {
		return err
	}
	if err := unix.Kill(0, unix.SIGTSTP); err != nil {
		return err
	}
	time.Sleep(stopWithin) // another thread may take the signal a moment later
	return s.enter()
}

// stopWithin is longer than a signal takes to stop this process.
const stopWithin = 100 * time.Millisecond

// draw replaces the content of the screen. A line is erased before it is written: after a
// full line the cursor is on its last character, which would be erased.
func (s *Screen) draw(lines []string) error {
	_, err := s.out.WriteString(home + endLine + strings.Join(lines, "\n"+endLine))
	return err
}

// size returns the columns and rows, or the usual ones if the terminal does not report them.
func (s *Screen) size() (columns, rows int) {
	columns, rows = term.Size(s.out)
	if columns == 0 || rows == 0 {
		return 80, 24
	}
	return columns, rows
}

// readKeys sends the keys until the terminal is closed, and closes keys then.
func (s *Screen) readKeys(keys chan<- key) {
	defer close(keys)
	buffer := make([]byte, 256)
	for {
		n, err := s.in.Read(buffer)
		if err != nil || n == 0 {
			return
		}
		for _, k := range parseKeys(buffer[:n]) {
			keys <- k
		}
	}
}
