// Package commandline gives the commands of all programs the same look: help of at most 80
// columns, exit status 2 for a wrong command line, and an error that names the help and the
// nearest command or flag. The rest is cobra's. It declares no command.
package commandline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit statuses of programs.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// UsageError reports a wrong command line: exit status 2.
type UsageError struct {
	Text string
	Help string // the command with the help on it, "" for none
}

func (e *UsageError) Error() string {
	if e.Help == "" {
		return e.Text
	}
	return e.Text + "; see " + e.Help + " --help"
}

// ExitError ends a program with Status. Err is nil if the output has the reason.
type ExitError struct {
	Status int
	Err    error
}

func (e *ExitError) Error() string { return fmt.Sprint(e.Err) }

// Prepare gives root and the commands below it the look. Text of root.Annotations for the
// help and the version: Exit, Note and Product.
func Prepare(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	addVersion(root)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { writeHelp(c.OutOrStdout(), c) })
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		text := fmt.Sprintf("cannot run %s: %v", c.CommandPath(), err)
		if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
			text += didYouMean(c.Flags(), unknown.GetSpecifiedName())
		}
		return &UsageError{text, c.CommandPath()}
	})
}

// addVersion gives root the flag --version. With cobra's own one a program contains
// text/template, which makes gpu-baseline a third larger.
func addVersion(root *cobra.Command) {
	run, text := root.RunE, cmp.Or(root.Annotations[Product], root.Name())+" "+root.Version+"\n"
	root.Version = ""
	shown := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(c *cobra.Command, args []string) error {
		if !*shown {
			return run(c, args)
		}
		_, err := io.WriteString(c.OutOrStdout(), text)
		return err
	}
}

// Run runs a command line without the program's name and returns the exit status.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	Prepare(root)
	out := &output{Writer: stdout}
	root.SetArgs(append([]string{}, args...)) // not nil, for which cobra reads os.Args
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	status, ended := ExitFailed, (*ExitError)(nil)
	switch _, wrong := errors.AsType[*UsageError](err); {
	case err == nil && out.err == nil:
		return ExitOK
	case wrong:
		status = ExitUsage
	case errors.As(err, &ended):
		status, err = ended.Status, ended.Err
	case err == nil:
		err = fmt.Errorf("cannot write the output: %w", out.err)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	}
	return status
}

// output keeps the first error of its writer, because cobra drops those of help texts.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// Wrong returns err as an error in the command line of c, or nil for nil.
func Wrong(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err.Error(), c.CommandPath()}
}

// NoArgs returns an error if a command has arguments.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return WrongArgs(c, args)
}

// WrongArgs returns the error of a command with wrong arguments. It shows the right ones.
func WrongArgs(c *cobra.Command, args []string) error {
	ran := c.CommandPath()
	if len(args) > 0 {
		ran += fmt.Sprintf(" with %q", strings.Join(args, " "))
	}
	return &UsageError{fmt.Sprintf("cannot run %s: want %s", ran, synopsis(c)), c.CommandPath()}
}

// Group makes c a group of commands, which does nothing without one of them.
func Group(c *cobra.Command) *cobra.Command {
	c.Args, c.RunE = cobra.ArbitraryArgs, wantCommand
	return c
}

// wantCommand reports a group without a known command below it.
func wantCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return &UsageError{fmt.Sprintf("cannot run %s without a command: want one of %s", c.CommandPath(),
			strings.Join(availableNames(c), ", ")), c.CommandPath()}
	}
	text := fmt.Sprintf("cannot run %s %q: no such command", c.CommandPath(), args[0])
	return &UsageError{text + suggest(c, args[0], ""), c.CommandPath()}
}

// didYouMean returns the question for the flags that are near to name, or "".
func didYouMean(flags *pflag.FlagSet, name string) string {
	all := &cobra.Command{}
	flags.VisitAll(func(f *pflag.Flag) {
		_, end, _ := strings.Cut(f.Name, ".")
		all.AddCommand(&cobra.Command{Use: f.Name, SuggestFor: []string{end}, Run: func(*cobra.Command, []string) {}})
	})
	return suggest(all, name, "--")
}

// suggest returns the question for the commands below c that are near to name, or "". Two
// changes of a short word make another word.
func suggest(c *cobra.Command, name, dashes string) string {
	c.SuggestionsMinimumDistance = min(2, len(name)/3)
	near := c.SuggestionsFor(name)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + dashes + strings.Join(near, " or "+dashes) + "?"
}
