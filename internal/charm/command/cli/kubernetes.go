package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/nodelabels"
)

const labelsText = "Names and values are as in AMD's node labeller, with gpu=true and amd.com/gpu=true. " +
	"The command reads sysfs only: it opens no GPU and contacts no cluster. It works on any machine, with or " +
	"without Juju.\n\n"

func (p *caller) labelsCommand() command {
	output := ""
	return command{words: "kubernetes labels", json: true,
		text: "print labels of this machine's AMD GPUs for Node Feature Discovery",
		long: "Prints the labels as Node Feature Discovery reads them, for a file " +
			"in " + nodelabels.Dir + ".\n\n" + labelsText,
		flags: func(fs *pflag.FlagSet) {
			fs.StringVar(&output, "output", "", "`FILE` to write instead; it is empty on a machine without a GPU")
		},
		run: func([]string) error {
			labels, err := p.nodeLabels()
			switch {
			case output != "" && (err == nil || errors.Is(err, errNoLabels)):
				return p.charm.Host.WriteFile(output, []byte(nodelabels.Lines(labels)), 0o644)
			case err != nil:
				return err
			case p.format.JSON:
				return term.JSON(p.stdout, labels)
			}
			_, err = fmt.Fprintf(p.stdout, "%s", nodelabels.Lines(labels))
			return err
		}}
}

func (p *caller) manifestCommand() command {
	return command{words: "kubernetes manifest", args: "NODE", min: 1, max: 1,
		text:    "print the same labels as a manifest of a node",
		long:    "Prints the node NODE with its labels, for clusters without Node Feature Discovery.\n\n" + labelsText,
		example: p.name() + " kubernetes manifest NODE |\n  kubectl apply --server-side --filename -",
		run: func(args []string) error {
			labels, err := p.nodeLabels()
			if err != nil {
				return err
			}
			data, err := nodelabels.Manifest(args[0], labels)
			if err == nil {
				_, err = p.stdout.Write(data)
			}
			return err
		}}
}

var errNoLabels = errors.New("cannot label a node: this machine has no AMD GPU that counts")

// nodeLabels returns the labels of a node with this machine's AMD GPUs.
func (p *caller) nodeLabels() (map[string]string, error) {
	inv, err := gpu.Discover(p.charm.Host.Root)
	if err != nil {
		return nil, err
	}
	gpus := gpu.ForTasks(inv.GPUsOf(gpu.VendorWith(gpu.Kubernetes)))
	labels := nodelabels.Labels(nodelabels.Read(p.charm.Host.Root, gpus))
	if len(labels) == 0 {
		return nil, fmt.Errorf("%w; %s gpu list shows its GPUs", errNoLabels, p.name())
	}
	return labels, nil
}
