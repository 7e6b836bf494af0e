package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/runners"
)

// runnersCommands returns the commands that connect CI runners with gpukit.
func (p *caller) runnersCommands() []command {
	return []command{
		{words: "runners list", only: wellknown.GPUKit, text: "list the kinds of CI runners, and how their jobs lease GPUs",
			run: func([]string) error {
				_, err := fmt.Fprint(p.stdout, runners.List())
				return err
			}},
		p.runnerCommand("install", "add gpukit to the configuration of a CI runner"),
		p.runnerCommand("remove", "undo only the changes of install"),
		{words: "runners labels", only: wellknown.GPUKit,
			text: "print labels for a runner on this machine, such as rocm,gfx942,gpu-4",
			run: func([]string) error {
				labels, err := runners.Labels(p.charm.Host.Root)
				if err == nil {
					fmt.Fprintln(p.stdout, strings.Join(labels, ","))
				}
				return err
			}},
	}
}

func (p *caller) runnerCommand(verb, text string) command {
	q := runners.Request{Remove: verb == "remove"}
	return command{words: "runners " + verb, only: wellknown.GPUKit, args: strings.Join(runners.Kinds(), "|"),
		min: 1, max: 1, values: runners.Kinds, text: text,
		long: "The lines name files in " + runners.Dir + ", which the package gpukit updates. Other lines stay. " +
			"No link on the way to PATH is followed.",
		example: "sudo " + p.name() + " runners " + verb + " github --path=/home/ci/actions-runner",
		flags: func(fs *pflag.FlagSet) {
			fs.StringVar(&q.Path, "path", "", "`PATH` of the runner's folder")
			fs.BoolVar(&p.plan.dryRun, "dry-run", false, "print the changes without making them")
		},
		run: func(words []string) (err error) {
			if q.Path == "" {
				return &commandline.UsageError{Text: "cannot find the runner: want --path=PATH, the folder of the runner"}
			}
			if q.Path, err = filepath.Abs(q.Path); err != nil {
				return err
			}
			q.Kind = words[0]
			change, advice, err := runners.Want(p.charm.Host.Root, q)
			if err != nil {
				return err
			}
			p.plan.verbose = true
			if err := p.applyPlan(change); err != nil {
				return err
			}
			if advice != "" {
				p.advise(advice)
			}
			return nil
		}}
}
