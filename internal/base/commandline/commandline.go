// Package commandline gives the command lines of all programs the same look: help of at most
// 80 columns, and an error that names the help and the nearest flag. It needs only the
// standard library, because jobs fetch gpu-baseline. It runs no command.
package commandline

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Width bounds the columns of help texts.
const Width = 80

// ErrVersion requests the version, as flag.ErrHelp requests the help.
var ErrVersion = errors.New("the version is asked for")

// Exit statuses of programs.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// Help describes the help text of a program or of one of its commands.
type Help struct {
	Usage    []string // lines with the program's name
	Text     string   // paragraphs, wrapped here
	Flags    *flag.FlagSet
	Examples []string
	Exit     string // exit statuses; "" for the usual ones
}

// New returns a set of flags that prints nothing itself, with --version.
func New(name string, version *bool) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	if version != nil {
		fs.BoolVar(version, "version", false, "print the version and exit")
	}
	return fs
}

// Write writes the help.
func (h Help) Write(w io.Writer) error {
	var b strings.Builder
	for i, line := range h.Usage {
		title := "Usage: "
		if i > 0 {
			title = "       "
		}
		b.WriteString(title + strings.Join(Wrap(line, Width-len(title)), "\n           ") + "\n")
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(h.Text), "\n\n") {
		if paragraph != "" {
			b.WriteString("\n" + strings.Join(Wrap(paragraph, Width), "\n") + "\n")
		}
	}
	if h.Flags != nil {
		b.WriteString("\nFlags:\n")
		h.Flags.VisitAll(func(f *flag.Flag) {
			value, text := flag.UnquoteUsage(f)
			left := "--" + f.Name
			if len(f.Name) == 1 {
				left = "-" + f.Name
			}
			if value != "" {
				left += "=" + strings.ToUpper(value)
			}
			if f.DefValue != "" && f.DefValue != "false" && !strings.Contains(text, "(default ") {
				text += " (default " + f.DefValue + ")"
			}
			WriteRow(&b, left, 26, text)
		})
	}
	if len(h.Examples) > 0 {
		b.WriteString("\nExample:\n  " + strings.Join(h.Examples, "\n  ") + "\n")
	}
	exit := h.Exit
	exit = cmp.Or(exit, "0 done, 1 failed, 2 wrong command line.")
	b.WriteString("\n" + strings.Join(Wrap("Exit status: "+exit, Width), "\n") + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteRow writes a row of two columns. The second one begins two after column.
func WriteRow(b *strings.Builder, left string, column int, text string) {
	left = "  " + left
	if len(left) > column {
		b.WriteString(left + "\n")
		left = ""
	}
	for _, line := range Wrap(text, Width-column-2) {
		fmt.Fprintf(b, "%-*s  %s\n", column, left, line)
		left = ""
	}
}

// Wrap breaks text between words into lines of at most width characters. A longer word gets
// a line of its length.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// FlagError returns an error of flag.FlagSet.Parse with two dashes and, for an unknown flag,
// the nearest one.
func FlagError(fs *flag.FlagSet, err error) error {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var names []string
		fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		return errors.New("unknown flag: --" + name + DidYouMean(name, names))
	}
	for _, before := range []string{" for flag ", " for ", "argument: "} {
		if s := strings.Replace(text, before+"-", before+"--", 1); s != text {
			return errors.New(s)
		}
	}
	return err
}

// DidYouMean returns "; did you mean --x?" with the flag that is nearest to name, or "" if
// none is near.
func DidYouMean(name string, flags []string) string {
	best, least := "", 3
	for _, f := range slices.Sorted(slices.Values(flags)) {
		n := distance(name, f)
		if len(name) > 2 && (strings.HasPrefix(f, name) || strings.HasSuffix(f, "."+name)) {
			n = min(n, 2)
		}
		if n < least && n < len(f) {
			best, least = f, n
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean --" + best + "?"
}

// distance returns the number of letters to change, insert or delete between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			n := min(row[j], row[j+1]) + 1
			if a[i] == b[j] {
				n = min(n, diagonal)
			} else {
				n = min(n, diagonal+1)
			}
			diagonal, row[j+1] = row[j+1], n
		}
	}
	return row[len(b)]
}
