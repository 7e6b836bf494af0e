package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/workstation"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
)

func (p *caller) cdiListCommand() command {
	return command{words: "cdi list", json: true, text: "list the names of this machine's AMD GPUs for container tools",
		long: "Prints the CDI names of this machine's AMD GPUs, and below each its render node, in the form of " +
			"amd-ctk cdi list. It reads the machine, not a file. GPUs that cannot be used are named on " +
			"stderr with the reason.",
		run: func([]string) error {
			m, err := cdi.OfMachine(p.charm.Host.Root)
			if err != nil {
				return err
			}
			list := cdi.List(m.Spec)
			if p.format.JSON {
				return term.JSON(p.stdout, struct {
					Kind string       `json:"kind"`
					GPUs []cdi.Listed `json:"gpus"`
					Left []string     `json:"left_out"`
				}{cdi.Kind, list, append([]string{}, m.Left...)})
			}
			p.printLeftOut(m.Left)
			return cdi.WriteList(p.stdout, list)
		}}
}

func (p *caller) printLeftOut(left []string) {
	for _, l := range left {
		fmt.Fprintln(p.stderr, "left out:", l)
	}
}

func (p *caller) cdiGenerateCommand() command {
	output, format := cdi.Path, ""
	var s workstation.Selection
	return command{words: "cdi generate", text: "write the CDI description of this machine's AMD GPUs",
		long: "Writes the CDI description of this machine's AMD GPUs, and prints what it changes. A description " +
			"by another tool at " + cdi.Path + " is moved to " + cdi.Path + ".before-concourse. A correct file " +
			"is left alone.\n\n" +
			"It fails without a GPU. Without a usable /dev/kfd it writes the description and fails, " +
			"because containers cannot compute with it.",
		flags: func(fs *pflag.FlagSet) {
			fs.StringVar(&output, "output", output, "`FILE` to write; - is standard output")
			fs.StringVar(
				&format, "format", "",
				"`NAME` of the format, json or yaml (default: by FILE's name, otherwise json)",
			)
			selectionFlags(fs, &s)
			p.planFlags(fs)
		},
		run: func([]string) error {
			if format == "" {
				format = "json"
				if ext := filepath.Ext(output); ext == ".yaml" || ext == ".yml" {
					format = "yaml"
				}
			}
			switch {
			case output == "":
				return &commandline.UsageError{
					Text: "cannot describe GPUs in a file without a name: want --output=FILE, or - for standard output",
				}
			case format != "json" && format != "yaml":
				return &commandline.UsageError{Text: fmt.Sprintf("cannot describe GPUs as %q: want json or yaml", format)}
			case format == "yaml" && output == cdi.Path:
				return &commandline.UsageError{
					Text: "cannot write YAML to " + cdi.Path + ": want another --output, or - for standard output",
				}
			}
			if p.onWorkstation() && output == cdi.Path && (len(s.Devices) > 0 || s.NoAll) {
				return &commandline.UsageError{
					Text: "cannot store a selection in " + cdi.Path + ", which gpukit-cdi.service writes: set " +
						"GPUKIT_CDI_REFRESH_DEVICE or GPUKIT_CDI_REFRESH_NO_ALL in /etc/default/gpukit, then: sudo " +
						"systemctl restart gpukit-cdi; or want another --output",
				}
			}
			return p.generateCDI(output, format, s)
		}}
}

// generateCDI writes the description of the machine's GPUs to a file, or to standard output
// for "-".
func (p *caller) generateCDI(output, format string, s workstation.Selection) error {
	m, err := cdi.OfMachine(p.charm.Host.Root)
	if err != nil {
		return err
	}
	if !p.plan.quiet {
		p.printLeftOut(m.Left)
	}
	if m.Spec == nil {
		return errors.New("cannot describe GPUs: this machine has no AMD GPU that a container could use; " +
			p.name() + " gpu list shows its GPUs")
	}
	if m.Spec, err = cdi.Select(m.Spec, s.Devices, s.NoAll); err != nil {
		return err
	}
	data, err := encodeSpec(m.Spec, format, output == cdi.Path)
	if err != nil {
		return err
	}
	if output == "-" {
		_, err := p.stdout.Write(data)
		return errors.Join(err, p.checkCompute(m.KFD))
	}
	file, err := filepath.Abs(output)
	if err != nil {
		return err
	}
	var want []plan.Resource
	if file == cdi.Path {
		want = append(want, cdi.Keep{})
	}
	err = p.applyPlan(append(want, resource.File{Path: file, Data: data, Mode: 0o644})...)
	return errors.Join(err, p.checkCompute(m.KFD))
}

// checkCompute returns an error if containers can only render and decode with the GPUs.
// They get the description in any case, because that may be enough.
func (p *caller) checkCompute(kfd gpu.KFD) error {
	if kfd.Usable() {
		return nil
	}
	return fmt.Errorf("cannot let containers compute with these GPUs: %s; %s; then: %s cdi generate",
		kfd.Text(), kfd.Help(), p.name())
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

// planOutput sets how a command shows and applies its plan.
type planOutput struct{ dryRun, verbose, quiet bool }

func (p *caller) planFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&p.plan.dryRun, "dry-run", false, "print the changes without making them")
	fs.BoolVarP(&p.plan.verbose, "verbose", "v", false, "print the content of files, too")
	fs.BoolVar(&p.plan.quiet, "quiet", false, "print errors only")
}

// advise writes a line for people.
func (p *caller) advise(text string) {
	if !p.plan.quiet {
		fmt.Fprintln(p.stdout, text)
	}
}

// applyPlan prints the missing resources and, unless it is a dry run, creates them.
func (p *caller) applyPlan(want ...plan.Resource) error {
	steps, err := plan.Diff(p.ctx, p.charm.Host, want...)
	if err != nil {
		return err
	}
	show := steps.Print
	if p.plan.verbose {
		show = steps.PrintWithContent
	}
	if !p.plan.quiet {
		err = show(p.stdout)
	}
	if err != nil || p.plan.dryRun {
		return err
	}
	_, err = steps.Apply(p.ctx, nil)
	return err
}

func (p *caller) cdiValidateCommand() command {
	path := ""
	return command{words: "cdi validate", args: "[FILE]", max: 1, json: true,
		text: "compare a CDI description with this machine",
		long: "Compares a CDI description, by any tool, with this machine's AMD GPUs, and prints each difference. " +
			"The default FILE is " + cdi.Path + ". It fails if they differ or the file cannot be read.",
		flags: func(fs *pflag.FlagSet) { fs.StringVar(&path, "path", "", "the same as `FILE`") },
		run: func(words []string) error {
			if path != "" {
				words = append(words, path)
			}
			if len(words) > 1 {
				return &commandline.UsageError{Text: fmt.Sprintf("cannot validate %q: want one file", strings.Join(words, " "))}
			}
			return p.validateCDI(append(words, cdi.Path)[0])
		}}
}

func (p *caller) validateCDI(name string) error {
	file, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	has, err := cdi.ReadSpec(p.charm.Host.Root, file)
	if errors.Is(err, cdi.ErrMissing) {
		return fmt.Errorf("%w; %s cdi generate --output %s makes it", err, p.name(), file)
	}
	if err != nil {
		return err
	}
	m, err := cdi.OfMachine(p.charm.Host.Root)
	if err != nil {
		return err
	}
	return p.showDifferences(file, cdi.Differences(has, m.Spec), m.Left)
}

// showDifferences prints the differences between a description and the machine.
func (p *caller) showDifferences(file string, diffs, left []string) error {
	valid := len(diffs) == 0
	if p.format.JSON {
		if err := term.JSON(p.stdout, struct {
			File        string   `json:"file"`
			Valid       bool     `json:"valid"`
			Differences []string `json:"differences"`
		}{file, valid, append([]string{}, diffs...)}); err != nil {
			return err
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
		return fmt.Errorf("%s is not what this machine has; run: %[2]s cdi generate --output %[1]s",
			file, p.name())
	}
	return nil
}
