package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// runCommand runs the command of a person and returns the exit status.
func runCommand(ctx context.Context, c *actions.Actions, args []string, env func(string) string,
	stdout, stderr io.Writer) int {
	screen := term.Terminal(stdout, env)
	// See no-color.org.
	p := &caller{ctx: ctx, charm: c, stdout: stdout, stderr: stderr, screen: screen, env: env,
		format: term.Format{Commands: c.Commands(), Colour: screen != nil && env("NO_COLOR") == ""}}
	root := p.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ended, ok := errors.AsType[*commandline.ExitError](err); ok {
		if ended.Err != nil {
			fmt.Fprintln(stderr, ended.Err)
		}
		return ended.Status
	}
	fmt.Fprintln(stderr, err)
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		fmt.Fprintf(stderr, "this needs root: sudo %s %s\n", p.name(), strings.Join(args, " "))
	}
	if _, ok := errors.AsType[*commandline.UsageError](err); ok {
		return commandline.ExitUsage
	}
	return commandline.ExitFailed
}

// Root returns the tree of a program's commands, for man pages and tests. It reads
// actions.yaml in the current folder.
func Root(program wellknown.Program) *cobra.Command {
	return (&caller{charm: &actions.Actions{Charm: &charm.Charm{Program: program}}}).root()
}

func (p *caller) root() *cobra.Command {
	root := commandline.Group(&cobra.Command{Use: p.name(), Version: version.Version(),
		Short: "the charm concourse-ci-machine",
		Long: "dispatch is the charm concourse-ci-machine. Juju runs it for hooks and actions. " +
			"People run it on a unit, most commands as root.",
		Annotations: map[string]string{commandline.Exit: "0 done, 1 failed or something is broken, 2 wrong command line."}})
	switch {
	case p.charm.Commands().WithoutJuju():
		root.Short = "a Concourse CI on this machine"
		root.Long = "concourse-ci-machine runs Concourse's web and worker with this machine's GPUs, and keeps them " +
			"as its options require. Most commands need sudo."
	case p.onWorkstation():
		root.Short = "AMD GPUs for containers"
		root.Long = "gpukit gives the AMD GPUs of this machine to containers of Docker, Podman, containerd and " +
			"CRI-O, and shows how they are. It needs neither Juju nor ROCm."
	}
	root.Annotations[commandline.Product] = p.productName()
	commandline.Prepare(root)
	root.CompletionOptions.DisableDefaultCmd = false
	root.CompletionOptions.DisableDescriptions = true
	parents := map[string]*cobra.Command{}
	for _, c := range p.commands() {
		if c.only == wellknown.GPUKit && !p.onWorkstation() {
			continue
		}
		parent, name := root, c.words
		if group, word, ok := strings.Cut(c.words, " "); ok {
			if parents[group] == nil {
				parents[group] = commandline.Group(&cobra.Command{Use: group, Short: groups[group]})
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
		commandline.Group(c).Short = "print a script for a shell that completes commands"
	}
	p.addNotes(root)
	return root
}

// onWorkstation reports whether this program is for machines without a unit.
func (p *caller) onWorkstation() bool { return p.charm.Program == wellknown.GPUKit }

// name returns the name of this program.
func (p *caller) name() string { return p.charm.Commands().Name() }

// productName returns the name in the version.
func (p *caller) productName() string {
	if p.onWorkstation() {
		return wellknown.GPUKit
	}
	return "concourse-ci-machine"
}

func (p *caller) cobraCommand(c command, name string) *cobra.Command {
	if c.only == wellknown.Dispatch && p.onWorkstation() {
		c.hidden, c.raw, c.min, c.max = true, true, 0, -1
		c.run = func([]string) error {
			return &commandline.UsageError{
				Text: fmt.Sprintf("cannot run gpukit %s: it needs a unit of the charm; there run: sudo dispatch %[1]s",
					c.words),
				Help: wellknown.GPUKit,
			}
		}
	}
	cc := &cobra.Command{Use: strings.TrimSpace(name + " " + c.args), Short: c.text, Long: c.long, Example: c.example,
		Hidden: c.hidden, SuggestFor: c.near, DisableFlagParsing: c.raw, DisableFlagsInUseLine: true,
		Args: func(cc *cobra.Command, args []string) error {
			if len(args) >= c.min && (c.max < 0 || len(args) <= c.max) {
				return nil
			}
			return commandline.WrongArgs(cc, args)
		},
		RunE: func(cc *cobra.Command, args []string) error {
			if c.helps && len(args) == 1 && args[0] == "--help" {
				return cc.Help()
			}
			err := p.flagsFromEnvironment(cc)
			if err == nil {
				err = c.run(args)
			}
			if wrong := (*commandline.UsageError)(nil); errors.As(err, &wrong) && wrong.Help == "" {
				wrong.Help = cc.CommandPath()
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
			err = &commandline.UsageError{Text: fmt.Sprintf("cannot use %s=%q: %v", name, value, wrong)}
		}
	})
	return err
}

// variablesOf returns the beginning of the variables for a command's flags, "" if it has
// none.
func variablesOf(cc *cobra.Command) string {
	group, _, ok := strings.Cut(strings.TrimPrefix(cc.CommandPath(), cc.Root().Name()+" "), " ")
	if !ok || group != "cdi" && group != "runtime" {
		return ""
	}
	return variableName(cc.CommandPath()) + "_"
}

// addNotes adds the variables of flags to the help of c and the commands below it.
func (p *caller) addNotes(c *cobra.Command) {
	if text := p.variablesText(c); text != "" {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[commandline.Note] = text
	}
	for _, s := range c.Commands() {
		p.addNotes(s)
	}
}

// variablesText returns the sentences on the environment of a command, or "" if it has none.
func (p *caller) variablesText(c *cobra.Command) string {
	if !c.HasParent() {
		text := "Environment: CHARM_ROOT=/prefix works on the file tree below /prefix, not /. NO_COLOR=1 turns " +
			"colours off; only a terminal gets them."
		if p.onWorkstation() {
			text += "\n\nEach flag of cdi and runtime has a variable of the environment, which a flag overrides: " +
				"GPUKIT_CDI_GENERATE_OUTPUT is --output of gpukit cdi generate. " +
				"/etc/default/gpukit has the variables of the service."
		}
		return text
	}
	prefix, example := variablesOf(c), ""
	if prefix == "" {
		return ""
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "string" {
			example = f.Name
		}
	})
	if example == "" {
		return ""
	}
	return "Each flag has a variable of the environment: " + prefix + variableName(example) +
		" is --" + example + "."
}

func variableName(text string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "_", "-", "_").Replace(text))
}
