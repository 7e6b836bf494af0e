package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
)

// caller holds the input and output of a command, for a user or a script.
type caller struct {
	ctx            context.Context
	charm          *actions.Actions
	stdout, stderr io.Writer
	screen         *os.File // stdout if it is a terminal, or nil
	format         term.Format
	env            func(string) string

	release string // --release of up
	verbose bool   // --verbose of up
	plan    planOutput
}

// wrongLine reports a wrong command line: exit status 2.
type usageError struct {
	text string
	help string // the command with the help on it, "" for none
}

func (w *usageError) Error() string {
	if w.help == "" {
		return w.text
	}
	return w.text + "; see " + w.help + " --help"
}

// runPerson runs the command of a person and returns the exit status.
func runCommand(ctx context.Context, c *actions.Actions, args []string, env func(string) string,
	stdout, stderr io.Writer) int {
	screen := term.Terminal(stdout, env)
	// See no-color.org.
	p := &caller{ctx: ctx, charm: c, stdout: stdout, stderr: stderr, screen: screen, env: env,
		format: term.Format{Colour: screen != nil && env("NO_COLOR") == ""}}
	root := p.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, err)
	if _, ok := errors.AsType[*usageError](err); ok {
		return 2
	}
	return 1
}

// Root returns the tree of commands, for man pages and tests. It reads actions.yaml in the
// current folder.
func Root() *cobra.Command { return (&caller{charm: &actions.Actions{Charm: &charm.Charm{}}}).root() }

func (p *caller) root() *cobra.Command {
	root := &cobra.Command{Use: wellknown.Command, Version: version.Version(), SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs, RunE: wantCommand,
		Short: "the charm concourse-ci-machine",
		Long: "dispatch is the charm concourse-ci-machine. Juju runs it for hooks and actions. " +
			"People run it on a unit, most commands as root."}
	switch {
	case wellknown.WithoutJuju():
		root.Short = "a Concourse CI on this machine"
		root.Long = "concourse-ci-machine runs Concourse's web and worker with this machine's GPUs, and keeps them " +
			"as its options say. Most commands need sudo."
	case onWorkstation():
		root.Short = "AMD GPUs for containers"
		root.Long = "gpukit gives the AMD GPUs of this machine to containers of Docker, Podman, containerd and " +
			"CRI-O, and shows how they are. It needs neither Juju nor ROCm."
	}
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate(productName() + " {{.Version}}\n")
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { writeHelp(c.OutOrStdout(), c) })
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		text := fmt.Sprintf("cannot run %s: %v", c.CommandPath(), err)
		if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
			var names []string
			c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			text += commandline.DidYouMean(unknown.GetSpecifiedName(), names)
		}
		return &usageError{text, c.CommandPath()}
	})
	root.CompletionOptions.DisableDescriptions = true
	parents := map[string]*cobra.Command{}
	for _, c := range p.commands() {
		if c.only == wellknown.GPUKit && !onWorkstation() {
			continue
		}
		parent, name := root, c.words
		if group, word, ok := strings.Cut(c.words, " "); ok {
			if parents[group] == nil {
				parents[group] = &cobra.Command{
					Use: group, Short: groupText(group), Args: cobra.ArbitraryArgs, RunE: wantCommand,
				}
				root.AddCommand(parents[group])
			}
			parent, name = parents[group], word
		}
		parent.AddCommand(p.cobraCommand(c, name))
	}
	cobra.EnableCommandSorting = false
	root.SetOut(p.stdout) // before the command completion is made, which keeps it
	root.SetErr(p.stderr)
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Short, c.Args, c.RunE = "print a script for a shell that completes commands", cobra.ArbitraryArgs, wantCommand
	}
	return root
}

// onWorkstation reports whether this program is for machines without a unit.
func onWorkstation() bool { return wellknown.Command == wellknown.GPUKit }

// groupText returns the line of a group in the help.
func groupText(group string) string {
	if group == "gpu" && onWorkstation() {
		return "GPUs of this machine"
	}
	return groups[group]
}

// productName returns the name in the version.
func productName() string {
	if onWorkstation() {
		return wellknown.GPUKit
	}
	return "concourse-ci-machine"
}

func (p *caller) cobraCommand(c command, name string) *cobra.Command {
	if c.only == wellknown.Dispatch && onWorkstation() {
		c.hidden, c.raw, c.min, c.max = true, true, 0, -1
		c.run = func([]string) error {
			return &usageError{
				text: fmt.Sprintf("cannot run gpukit %s: it needs a unit of the charm; there run: sudo dispatch %[1]s",
					c.words),
				help: wellknown.GPUKit,
			}
		}
	}
	cc := &cobra.Command{Use: strings.TrimSpace(name + " " + c.args), Short: c.text, Long: c.long, Example: c.example,
		Hidden: c.hidden, SuggestFor: c.near, DisableFlagParsing: c.raw, DisableFlagsInUseLine: true,
		Args: func(cc *cobra.Command, args []string) error {
			if len(args) >= c.min && (c.max < 0 || len(args) <= c.max) {
				return nil
			}
			ran := cc.CommandPath()
			if len(args) > 0 {
				ran += fmt.Sprintf(" with %q", strings.Join(args, " "))
			}
			return &usageError{fmt.Sprintf("cannot run %s: want %s", ran, synopsis(cc)), cc.CommandPath()}
		},
		RunE: func(cc *cobra.Command, args []string) error {
			if c.helps && len(args) == 1 && args[0] == "--help" {
				return cc.Help()
			}
			err := p.flagsFromEnvironment(cc)
			if err == nil {
				err = c.run(args)
			}
			if wrong := (*usageError)(nil); errors.As(err, &wrong) && wrong.help == "" {
				wrong.help = cc.CommandPath()
			}
			return err
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			switch {
			case c.max != 0 && c.values == nil:
				return nil, cobra.ShellCompDirectiveDefault // files
			case c.values == nil || len(args) > 0:
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return slices.DeleteFunc(c.values(), func(v string) bool { return !strings.HasPrefix(v, begun) }),
				cobra.ShellCompDirectiveNoFileComp
		}}
	if c.json {
		cc.Flags().BoolVar(&p.format.JSON, "json", false, "print JSON")
	}
	if c.flags != nil {
		c.flags(cc.Flags())
	}
	return cc
}

// flagsFromEnvironment sets the flags of a command for engines that the command line does
// not set, from variables such as GPUKIT_CDI_GENERATE_OUTPUT.
func (p *caller) flagsFromEnvironment(cc *cobra.Command) (err error) {
	prefix := variablesOf(cc)
	if prefix == "" {
		return nil
	}
	cc.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name := prefix + variableName(f.Name)
		value := p.env(name)
		if value == "" || f.Changed || err != nil || f.Name == "help" {
			return
		}
		if wrong := cc.Flags().Set(f.Name, value); wrong != nil {
			err = &usageError{text: fmt.Sprintf("cannot use %s=%q: %v", name, value, wrong)}
		}
	})
	return err
}

// variablesOf returns the beginning of the variables for a command's flags, "" if it has
// none.
func variablesOf(cc *cobra.Command) string {
	group, _, ok := strings.Cut(strings.TrimPrefix(cc.CommandPath(), wellknown.Command+" "), " ")
	if !ok || group != "cdi" && group != "runtime" {
		return ""
	}
	return variableName(cc.CommandPath()) + "_"
}

// VariablesText returns the sentence on the variables of a command's flags, or "" if it has
// none. The sentence of gpukit itself describes the variables of its commands.
func VariablesText(c *cobra.Command) string {
	if prefix := variablesOf(c); prefix != "" {
		example := ""
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "string" {
				example = f.Name
			}
		})
		if example != "" {
			return "Each flag has a variable of the environment: " + prefix + variableName(example) +
				" is --" + example + "."
		}
	}
	if !c.HasParent() && onWorkstation() {
		return "Each flag of cdi and runtime has a variable of the environment, which a flag overrides: " +
			"GPUKIT_CDI_GENERATE_OUTPUT is --output of gpukit cdi generate. " +
			"/etc/default/gpukit has the variables of the service."
	}
	return ""
}

func variableName(text string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "_", "-", "_").Replace(text))
}

func availableNames(c *cobra.Command) (names []string) {
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			names = append(names, s.Name())
		}
	}
	return names
}

// wantCommand reports a group without a known command below it.
func wantCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return &usageError{fmt.Sprintf("cannot run %s without a command: want one of %s", c.CommandPath(),
			strings.Join(availableNames(c), ", ")), c.CommandPath()}
	}
	text := fmt.Sprintf("cannot run %s %q: no such command", c.CommandPath(), args[0])
	c.SuggestionsMinimumDistance = min(2, len(args[0])/3) // two changes of a short word make another one
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return &usageError{text, c.CommandPath()}
}

// synopsis returns the usage line of a command.
func synopsis(c *cobra.Command) string {
	line := c.UseLine()
	if c.HasAvailableSubCommands() {
		line = c.CommandPath() + " COMMAND"
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Name == "help" || f.Name == "version":
		case f.Value.Type() == "bool":
			line += " [--" + f.Name + "]"
		default:
			name, _ := pflag.UnquoteUsage(f)
			line += " [--" + f.Name + "=" + name + "]"
		}
	})
	return line
}

// writeHelp writes the help on one command, or on a group with its commands.
func writeHelp(w io.Writer, c *cobra.Command) {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	usage := commandline.Wrap("Usage: "+synopsis(c), commandline.Width-8)
	b.WriteString(strings.Join(usage, "\n        ") + "\n\n")
	text := c.Long
	if text == "" {
		text = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.Contains(paragraph, "\n\t") { // cobra's own text of completion
			b.WriteString(paragraph + "\n\n")
			continue
		}
		text := strings.Join(strings.Fields(paragraph), " ")
		b.WriteString(strings.Join(commandline.Wrap(text, commandline.Width), "\n") + "\n\n")
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("Commands:\n")
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() {
				commandline.WriteRow(&b, s.Name(), 14, short(s))
			}
		}
		b.WriteString("\n")
	}
	if !c.DisableFlagParsing {
		title := "Flags:\n"
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			b.WriteString(title)
			title = ""
			name, text := pflag.UnquoteUsage(f)
			left := "--" + f.Name
			if f.Shorthand != "" {
				left = "-" + f.Shorthand + ", " + left
			}
			if f.Value.Type() != "bool" {
				left += "=" + name
			}
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
				text += " (default " + f.DefValue + ")"
			}
			commandline.WriteRow(&b, left, 22, text)
		})
		if title == "" {
			b.WriteString("\n")
		}
		if text := VariablesText(c); text != "" {
			b.WriteString(strings.Join(commandline.Wrap(text, commandline.Width), "\n") + "\n\n")
		}
	}
	if c.Example != "" {
		b.WriteString("Example:\n  " + strings.ReplaceAll(c.Example, "\n", "\n  ") + "\n\n")
	}
	if !c.HasParent() {
		b.WriteString(wellknown.Command +
			" COMMAND --help shows the commands of a group or the flags of a command.\n\n" +
			"Environment: CHARM_ROOT=/prefix works on the file tree below /prefix, not /.\n" +
			"NO_COLOR=1 turns colours off; only a terminal gets them.\n\n")
	}
	b.WriteString("Exit status: 0 done, 1 failed or something is broken, 2 wrong command line.\n")
	io.WriteString(w, b.String())
}

// short returns the line of a command in a list. A group has the names of its commands.
func short(c *cobra.Command) string {
	if !c.HasAvailableSubCommands() {
		return c.Short
	}
	return c.Short + ": " + strings.Join(availableNames(c), ", ")
}
