package term

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Terminal is w where that is a terminal which knows more than lines, else nil. A hook's
// or an action's output is none.
func Terminal(w io.Writer, env func(string) string) *os.File {
	f, ok := w.(*os.File)
	if !ok || env("TERM") == "dumb" {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return f
}

// Size is how many columns and rows a terminal has; 0 and 0 where it does not tell.
func Size(terminal *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}
