package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminal is w where that is a terminal which knows more than lines, else nil. A hook's
// or an action's output is none.
func terminal(w io.Writer, env func(string) string) *os.File {
	f, ok := w.(*os.File)
	if !ok || env("TERM") == "dumb" {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return f
}
