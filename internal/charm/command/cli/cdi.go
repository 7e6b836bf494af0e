package cli

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/cdi"
)

const cdiUsage = `Usage: dispatch cdi list|generate|validate|refresh [flags]

Describes AMD's GPUs for container tools (CDI), on any machine; list, generate and
validate need neither Juju nor AMD's tools. See dispatch cdi COMMAND --help.

  list      the names of this machine's GPUs
  generate  writes their description
  validate  tells whether a description is this machine's
  refresh   of a unit: what its next hook would write
`

const cdiListUsage = `Usage: dispatch cdi list [--json]

Prints the CDI names of this machine's AMD GPUs, and below each its render node, in
the form of amd-ctk cdi list. It looks at the machine, not at a file. GPUs that can't
be used are named on stderr, with the reason.

  --json  names, other names, PCI addresses and all nodes
  --help  print this text and exit

Exit status: 0 done, 1 failed, 2 wrong command line.
`

const cdiGenerateUsage = `Usage: dispatch cdi generate [flags]

Writes the CDI description of this machine's AMD GPUs, and prints what it changes. A
description by another tool that is at ` + cdi.Path + ` is moved to
` + cdi.Path + `.before-concourse. A file that is right is left alone.

  --output=FILE  where to; - is standard output (default ` + cdi.Path + `)
  --format=NAME  json or yaml (default: by FILE's name, else json)
  --dry-run      print what would be done, change nothing
  --help         print this text and exit

Exit status: 0 done, 1 failed, no GPU to describe, or no usable /dev/kfd: the description
is written and containers can't compute with it, 2 wrong command line.
`

const cdiValidateUsage = `Usage: dispatch cdi validate [flags] [FILE]

Compares a CDI description, by any tool, with this machine's AMD GPUs, and prints each
difference. FILE is ` + cdi.Path + ` where none is named.

  --path=FILE  the same as FILE
  --json       file, valid and differences, as JSON
  --help       print this text and exit

Exit status: 0 it is what the machine has, 1 it is not, or can't be read, 2 wrong
command line.
`

func (p *caller) cdi(args []string) int {
	if len(args) == 0 {
		return p.usageError("cannot run cdi without a command: want cdi list, generate, validate or refresh")
	}
	switch name, rest := args[0], args[1:]; {
	case name == "list":
		return p.cdiList(rest)
	case name == "generate":
		return p.cdiGenerate(rest)
	case name == "validate":
		return p.cdiValidate(rest)
	case name == "refresh" && len(rest) == 0:
		return p.exitStatus(p.charm.RefreshCDI(p.ctx, p.stdout))
	case isHelp(name) || name == "refresh" && isHelp(rest[0]):
		fmt.Fprint(p.stdout, cdiUsage)
		return 0
	}
	return p.usageError("cannot run cdi %q: want cdi list, generate, validate or refresh", strings.Join(args, " "))
}

func isHelp(arg string) bool { return arg == "--help" || arg == "-h" || arg == "help" }

// flags parses the flags of a subcommand, before and after its other words. If ended is
// true the command ends with the exit status code: the user requested help, or the line is
// invalid.
func (p *caller) flags(fs *flag.FlagSet, usage, what string, args []string) (words []string, code int, ended bool) {
	fs.SetOutput(io.Discard) // this function prints errors and usage
	for {
		switch err := fs.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			fmt.Fprint(p.stdout, usage)
			return nil, 0, true
		case err != nil:
			return nil, p.usageError("cannot %s: %v", what, err), true
		case fs.NArg() == 0:
			return words, 0, false
		}
		words, args = append(words, fs.Arg(0)), fs.Args()[1:]
	}
}

func (p *caller) cdiList(args []string) int {
	fs := flag.NewFlagSet("cdi list", flag.ContinueOnError)
	fs.BoolVar(&p.format.JSON, "json", false, "")
	words, code, ended := p.flags(fs, cdiListUsage, "list CDI names", args)
	if ended {
		return code
	}
	if len(words) > 0 {
		return p.usageError("cannot list CDI names with %q: only flags are known", words[0])
	}
	m, err := cdi.OfMachine(p.charm.Host.Root)
	if err != nil {
		return p.exitStatus(err)
	}
	list := cdi.List(m.Spec)
	if p.format.JSON {
		return p.exitStatus(term.JSON(p.stdout, struct {
			Kind string       `json:"kind"`
			GPUs []cdi.Listed `json:"gpus"`
			Left []string     `json:"left_out"`
		}{cdi.Kind, list, append([]string{}, m.Left...)}))
	}
	p.printLeftOut(m.Left)
	return p.exitStatus(cdi.WriteList(p.stdout, list))
}

func (p *caller) printLeftOut(left []string) {
	for _, l := range left {
		fmt.Fprintln(p.stderr, "left out:", l)
	}
}

func (p *caller) cdiGenerate(args []string) int {
	fs := flag.NewFlagSet("cdi generate", flag.ContinueOnError)
	output, format, dry := fs.String("output", cdi.Path, ""), fs.String("format", "", ""), fs.Bool("dry-run", false, "")
	words, code, ended := p.flags(fs, cdiGenerateUsage, "describe GPUs", args)
	if ended {
		return code
	}
	if *format == "" {
		*format = "json"
		if ext := filepath.Ext(*output); ext == ".yaml" || ext == ".yml" {
			*format = "yaml"
		}
	}
	switch {
	case len(words) > 0:
		return p.usageError("cannot describe GPUs with %q: only flags are known, as --output=%[1]s", words[0])
	case *output == "":
		return p.usageError(
			"cannot describe GPUs in a file without a name: want --output=FILE, or - for standard output",
		)
	case *format != "json" && *format != "yaml":
		return p.usageError("cannot describe GPUs as %q: want json or yaml", *format)
	case *format == "yaml" && *output == cdi.Path:
		return p.usageError("cannot write YAML to %s: want another --output, or - for standard output", cdi.Path)
	}
	m, err := cdi.OfMachine(p.charm.Host.Root)
	if err != nil {
		return p.exitStatus(err)
	}
	p.printLeftOut(m.Left)
	if m.Spec == nil {
		return p.exitStatus(errors.New(
			"cannot describe GPUs: this machine has no AMD GPU that a container could use; dispatch gpu list " +
				"says what it has",
		))
	}
	data, err := encodeSpec(m.Spec, *format, *output == cdi.Path)
	if err != nil {
		return p.exitStatus(err)
	}
	if *output == "-" {
		_, err := p.stdout.Write(data)
		return p.exitStatus(errors.Join(err, checkCompute(m.KFD)))
	}
	file, err := filepath.Abs(*output)
	if err != nil {
		return p.exitStatus(err)
	}
	var want []plan.Resource
	if file == cdi.Path {
		want = append(want, cdi.Keep{})
	}
	err = p.applyPlan(*dry, append(want, resource.File{Path: file, Data: data, Mode: 0o644})...)
	return p.exitStatus(errors.Join(err, checkCompute(m.KFD)))
}

// checkCompute returns an error if containers can only render and decode with the GPUs.
// They get the description in any case, because that may be enough.
func checkCompute(kfd gpu.KFD) error {
	if kfd.Usable() {
		return nil
	}
	return fmt.Errorf(
		"cannot let containers compute with these GPUs: %s; %s; then: dispatch cdi generate",
		kfd.Text(), kfd.Help(),
	)
}

// encodeSpec returns compact JSON for the file that the wrapper reads for every container,
// equal to the file of a unit.
func encodeSpec(s *specs.Spec, format string, compact bool) (data []byte, err error) {
	switch {
	case format == "yaml":
		data, err = yaml.Marshal(s)
	case compact:
		data, err = json.Marshal(s)
	default:
		data, err = json.MarshalIndent(s, "", "  ")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot encode the description: %w", err)
	}
	if format == "json" {
		data = append(data, '\n')
	}
	return data, nil
}

// applyPlan prints the missing resources and, unless dry, creates them.
func (p *caller) applyPlan(dry bool, want ...plan.Resource) error {
	steps, err := plan.Diff(p.ctx, p.charm.Host, want...)
	if err != nil {
		return err
	}
	if err := steps.Print(p.stdout); err != nil || dry {
		return err
	}
	_, err = steps.Apply(p.ctx, nil)
	return err
}

func (p *caller) cdiValidate(args []string) int {
	fs := flag.NewFlagSet("cdi validate", flag.ContinueOnError)
	path := fs.String("path", "", "")
	fs.BoolVar(&p.format.JSON, "json", false, "")
	words, code, ended := p.flags(fs, cdiValidateUsage, "validate a CDI description", args)
	if ended {
		return code
	}
	if *path != "" {
		words = append(words, *path)
	}
	if len(words) > 1 {
		return p.usageError("cannot validate %q: want one file", strings.Join(words, " "))
	}
	file, err := filepath.Abs(append(words, cdi.Path)[0])
	if err != nil {
		return p.exitStatus(err)
	}
	has, err := cdi.ReadSpec(p.charm.Host.Root, file)
	if err != nil {
		return p.exitStatus(err)
	}
	m, err := cdi.OfMachine(p.charm.Host.Root)
	if err != nil {
		return p.exitStatus(err)
	}
	return p.printValidation(file, cdi.Differences(has, m.Spec), m.Left)
}

func (p *caller) printValidation(file string, diffs, left []string) int {
	valid := len(diffs) == 0
	if p.format.JSON {
		if err := term.JSON(p.stdout, struct {
			File        string   `json:"file"`
			Valid       bool     `json:"valid"`
			Differences []string `json:"differences"`
		}{file, valid, append([]string{}, diffs...)}); err != nil {
			return p.exitStatus(err)
		}
	} else {
		p.printLeftOut(left)
		fmt.Fprintf(p.stdout, "Validating CDI spec: %s\n", file)
		for _, d := range diffs {
			fmt.Fprintln(p.stdout, d)
		}
		if valid {
			fmt.Fprintln(p.stdout, "CDI spec is valid")
		}
	}
	if !valid {
		return p.exitStatus(fmt.Errorf(
			"%s is not what this machine has; run: dispatch cdi generate --output %[1]s", file,
		))
	}
	return 0
}
