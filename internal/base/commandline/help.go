package commandline

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Width bounds the columns of help texts.
const Width = 80

// Annotations of a command for its help.
const (
	Exit    = "exit"    // exit statuses, also of the commands below; "" for the usual ones
	Note    = "note"    // paragraphs after the flags
	Product = "product" // name before the version; "" for the program's
)

// synopsis returns the usage line of a command. It lists the flags unless Use has [flags].
func synopsis(c *cobra.Command) string {
	line := c.UseLine()
	if c.HasAvailableSubCommands() {
		line = c.CommandPath() + " COMMAND"
	}
	if strings.Contains(line, "[flags]") {
		return line
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" {
			line += " [" + flagText(f) + "]"
		}
	})
	return line
}

// flagText returns a flag with the name of its value, without the one of a single letter.
func flagText(f *pflag.Flag) string {
	text := "--" + f.Name
	if len(f.Name) == 1 {
		text = "-" + f.Name
	}
	if name, _ := pflag.UnquoteUsage(f); f.Value.Type() != "bool" {
		text += "=" + strings.ToUpper(name)
	}
	return text
}

// writeHelp writes the help on one command, or on a group with its commands.
func writeHelp(w io.Writer, c *cobra.Command) {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	b.WriteString(strings.Join(Wrap("Usage: "+synopsis(c), Width-8), "\n        ") + "\n\n")
	text := c.Long
	if text == "" && c.Short != "" {
		text = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	writeParagraphs(&b, text)
	if c.HasAvailableSubCommands() {
		b.WriteString("Commands:\n")
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() {
				WriteRow(&b, s.Name(), 14, short(s))
			}
		}
		b.WriteString("\n")
	}
	if !c.DisableFlagParsing {
		writeFlags(&b, c.LocalFlags())
		writeParagraphs(&b, c.Annotations[Note])
	}
	if c.Example != "" {
		b.WriteString("Example:\n  " + strings.ReplaceAll(c.Example, "\n", "\n  ") + "\n\n")
	}
	if !c.HasParent() && c.HasAvailableSubCommands() {
		writeParagraphs(&b, c.Name()+" COMMAND --help shows the commands of a group or the flags of a command.")
	}
	exit := c.Annotations[Exit]
	for p := c; exit == "" && p.HasParent(); exit = p.Annotations[Exit] {
		p = p.Parent()
	}
	exit = "Exit status: " + cmp.Or(exit, "0 done, 1 failed, 2 wrong command line.")
	b.WriteString(strings.Join(Wrap(exit, Width), "\n") + "\n")
	io.WriteString(w, b.String())
}

// writeParagraphs wraps each paragraph of text.
func writeParagraphs(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		switch {
		case strings.Contains(paragraph, "\n\t"): // cobra's own text of completion
			b.WriteString(paragraph + "\n\n")
		case paragraph != "":
			b.WriteString(strings.Join(Wrap(paragraph, Width), "\n") + "\n\n")
		}
	}
}

func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	before := "Flags:\n"
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		b.WriteString(before)
		before = ""
		left := flagText(f)
		if f.Shorthand != "" && f.Shorthand != f.Name {
			left = "-" + f.Shorthand + ", " + left
		}
		_, text := pflag.UnquoteUsage(f)
		if d := f.DefValue; d != "" && d != "false" && d != "[]" && !strings.Contains(text, "(default") {
			text += " (default " + d + ")"
		}
		WriteRow(b, left, 22, text)
	})
	if before == "" {
		b.WriteString("\n")
	}
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

// short returns the line of a command in a list. A group has the names of its commands.
func short(c *cobra.Command) string {
	if !c.HasAvailableSubCommands() {
		return c.Short
	}
	return c.Short + ": " + strings.Join(availableNames(c), ", ")
}

func availableNames(c *cobra.Command) (names []string) {
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			names = append(names, s.Name())
		}
	}
	return names
}
