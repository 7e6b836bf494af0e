package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/remote"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/onemachine"
)

// machine runs a command on a machine without Juju. Progress goes to the user.
func (p *caller) machine(run func(m *onemachine.Machine) error) error {
	m, err := onemachine.New(p.charm, onemachine.Progress{W: p.stdout, Terminal: p.screen != nil && !p.verbose})
	if err != nil {
		return err
	}
	m.Model.Verbose = p.verbose
	m.Model.Release = p.release
	return run(m)
}

// machineCommands returns the commands that only a machine without Juju has: those that set
// it up, and the charm's actions.
func (p *caller) machineCommands() []command {
	join := ""
	up := func(fs *pflag.FlagSet) {
		fs.StringVar(&join, "join", "", "`line` of the command invite: become a worker of that machine's web")
		fs.StringVar(&p.release, "release", "", "`file` of a Concourse release, for machines without internet")
		fs.BoolVarP(&p.verbose, "verbose", "v", false, "show each plan before it is applied")
	}
	all := []command{
		{words: "up", near: []string{"join"}, flags: up, text: "set up a whole CI on this machine, or repair it",
			long: "Installs Concourse's web and worker and PostgreSQL, makes the GPUs available to tasks, and prints " +
				"the URL. The options are in " + onemachine.OptionsFile + ". Run it again after a change or a failure.",
			example: "sudo concourse-ci-machine up",
			run: func([]string) error {
				return p.machine(func(m *onemachine.Machine) error {
					if err := m.Up(p.ctx, join); err != nil {
						return err
					}
					if join != "" {
						return m.PrintKey()
					}
					fmt.Fprintln(p.stdout)
					return m.Show(p.ctx)
				})
			}},
		{words: "plan", text: "show what up would change now, and why; changes nothing",
			run: func([]string) error { return p.machine(func(m *onemachine.Machine) error { return m.Plan(p.ctx) }) }},
		{words: "status", text: "show whether the CI works, its URL, its GPUs and tags",
			run: func([]string) error { return p.machine(func(m *onemachine.Machine) error { return m.Show(p.ctx) }) }},
		{words: "set", args: "OPTION=VALUE...", min: 1, max: -1, text: "change options, and apply them",
			example: "sudo concourse-ci-machine set gpu-sharing=exclusive", run: p.setOptions},
		{words: "reset", args: "OPTION...", min: 1, max: -1, text: "give options their default, and apply it",
			run: func(names []string) error {
				return p.machine(func(m *onemachine.Machine) error { return m.Change(p.ctx, nil, names) })
			}},
		{words: "upgrade", args: "[VERSION]", max: 1,
			text: "install another version of Concourse; without a version the one of this package",
			run: func(a []string) error {
				return p.machine(func(m *onemachine.Machine) error {
					if len(a) == 0 {
						return m.Change(p.ctx, nil, []string{"version"})
					}
					return m.Change(p.ctx, map[string]string{"version": a[0]}, nil)
				})
			}},
		{words: "logs", args: "[ARGS]", max: -1, raw: true, helps: true,
			text:    "show the logs; arguments go to journalctl",
			example: "sudo concourse-ci-machine logs --follow",
			run: func(a []string) error {
				return p.machine(func(m *onemachine.Machine) error { return m.Logs(p.ctx, a) })
			}},
		{words: "down", text: "stop the CI, and keep its data",
			run: func([]string) error { return p.machine(func(m *onemachine.Machine) error { return m.Down(p.ctx) }) }},
		p.purgeCommand(),
		{words: "invite", text: "print the command that makes another machine a worker of this one",
			run: func([]string) error {
				return p.machine(func(m *onemachine.Machine) error { return m.Invite(p.ctx) })
			}},
		{words: "accept", args: "LINE", min: 1, max: 1, text: "let the worker of another machine register",
			run: func(a []string) error {
				return p.machine(func(m *onemachine.Machine) error { return m.Accept(p.ctx, a[0]) })
			}},
		{words: "dismiss", args: "NAME", min: 1, max: 1, text: "end the registration of another machine's worker",
			run: func(a []string) error {
				return p.machine(func(m *onemachine.Machine) error { return m.Dismiss(p.ctx, a[0]) })
			}},
		{words: "add-worker", args: "[USER@]HOST", min: 1, max: 1,
			text: "make another machine a worker of this one, over your own ssh",
			long: "Runs concourse-ci-machine up on another machine that has this package, and accepts its worker. " +
				sshText,
			run: func(a []string) error {
				return p.onNode(a[0], func(n *remote.Node) error {
					return p.machine(func(m *onemachine.Machine) error { return m.AddWorker(p.ctx, n) })
				})
			}},
		{words: "worker-key", hidden: true, text: "print the name and key of this machine's worker",
			run: func([]string) error {
				return p.machine(func(m *onemachine.Machine) error { return m.WorkerKey() })
			}},
		{words: "reconcile", hidden: true, text: "repair the machine, as the timer does",
			run: func([]string) error {
				return p.machine(func(m *onemachine.Machine) error { return m.Reconcile(p.ctx) })
			}},
	}
	return append(all, p.actionCommands(slices.Concat(all, p.unitCommands()))...)
}

func (p *caller) setOptions(args []string) error {
	set := map[string]string{}
	for _, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return &commandline.UsageError{Text: fmt.Sprintf("cannot set %q: want option=value", a)}
		}
		set[name] = value
	}
	return p.machine(func(m *onemachine.Machine) error { return m.Change(p.ctx, set, nil) })
}

func (p *caller) purgeCommand() command {
	yes := false
	return command{words: "purge", text: "remove the CI with all its data",
		flags: func(fs *pflag.FlagSet) { fs.BoolVar(&yes, "yes", false, "do not ask") },
		run: func([]string) error {
			return p.machine(func(m *onemachine.Machine) error {
				if err := m.CheckSetUp(); err != nil {
					return err
				}
				if !yes && !p.confirm("This removes all pipelines, builds and keys of this machine's CI.") {
					return errors.New("nothing was removed")
				}
				return m.Purge(p.ctx)
			})
		}}
}

// confirm asks a question on a terminal. Without one the answer is no.
func (p *caller) confirm(text string) bool {
	if p.screen == nil {
		fmt.Fprintln(p.stderr, text+" Without a terminal give --yes.")
		return false
	}
	fmt.Fprint(p.stdout, text+" Type yes to continue: ")
	var answer string
	fmt.Fscanln(os.Stdin, &answer) // an end of the input is no answer
	return answer == "yes"
}

// actionCommands returns the actions of the charm as commands, except those with the name of
// another command. Help leaves out the actions that other commands do. They work too, because
// remedies name them.
func (p *caller) actionCommands(others []command) (all []command) {
	named := func(name string) func(command) bool { return func(c command) bool { return c.words == name } }
	does := func(name string) func(command) bool { return func(c command) bool { return c.action == name } }
	for _, a := range p.actions() {
		if slices.ContainsFunc(others, named(a.Name)) {
			continue
		}
		all = append(all, command{words: a.Name, args: a.synopsis(), max: len(a.Order), text: a.summary(),
			hidden: slices.ContainsFunc(others, does(a.Name)),
			run: func(args []string) error {
				given, err := a.given(args)
				if err != nil {
					return err
				}
				return p.machine(func(m *onemachine.Machine) error { return m.Action(p.ctx, a.Name, given) })
			}})
	}
	return all
}

// declared describes an action of actions.yaml.
type declared struct {
	Name        string           `yaml:"-"`
	Order       []string         `yaml:"-"`
	Description string           `yaml:"description"`
	Params      map[string]param `yaml:"params"`
}

type param struct {
	Type string `yaml:"type"`
}

// synopsis returns the parameters for help.
func (a declared) synopsis() string {
	var params []string
	for _, name := range a.Order {
		params = append(params, "["+name+"=VALUE]")
	}
	return strings.Join(params, " ")
}

// given returns the parameters of a command line.
func (a declared) given(args []string) (map[string]any, error) {
	given := map[string]any{}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		param, known := a.Params[name]
		if !ok || !known {
			return nil, &commandline.UsageError{Text: fmt.Sprintf("cannot run %s with %q: want %s", a.Name, arg, a.synopsis())}
		}
		v, err := param.parse(value)
		if err != nil {
			return nil, &commandline.UsageError{Text: fmt.Sprintf("cannot run %s with %q: %v", a.Name, arg, err)}
		}
		given[name] = v
	}
	return given, nil
}

// summary returns the first sentence of the description, as one line without a full stop.
func (a declared) summary() string {
	text, _, _ := strings.Cut(strings.Join(strings.Fields(a.Description), " "), ". ")
	text = strings.TrimSuffix(text, ".")
	if text == "" {
		return a.Name
	}
	return strings.ToLower(text[:1]) + text[1:]
}

// parse converts a value of the command line to the parameter's type. Without a type it is
// text, such as the name or the number of a GPU.
func (p param) parse(value string) (v any, err error) {
	if p.Type == "string" || p.Type == "" {
		return value, nil
	}
	if err := yaml.Unmarshal([]byte(value), &v); err != nil {
		return nil, fmt.Errorf("%q is not of type %s", value, p.Type)
	}
	_, isBool := v.(bool)
	_, isInt := v.(int)
	if p.Type == "boolean" && !isBool || p.Type == "integer" && !isInt {
		return nil, fmt.Errorf("%q is not of type %s", value, p.Type)
	}
	return v, nil
}

// actions reads the charm's actions.
func (p *caller) actions() (all []declared) {
	data, err := os.ReadFile(filepath.Join(p.charm.CharmDir, "actions.yaml"))
	if err != nil {
		return nil // help works without the package's files
	}
	var file map[string]declared
	if yaml.Unmarshal(data, &file) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(file)) {
		a := file[name]
		a.Name, a.Order = name, slices.Sorted(maps.Keys(a.Params))
		all = append(all, a)
	}
	return all
}
