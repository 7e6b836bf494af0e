package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// colours reports whether w is a terminal that shows them, and nobody asked to
// do without (no-color.org). A hook's or an action's output is no terminal.
func colours(w io.Writer, env func(string) string) bool {
	f, ok := w.(*os.File)
	if !ok || env("NO_COLOR") != "" || env("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
