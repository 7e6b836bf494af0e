package cli

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/kube/nodelabels"
)

const kubernetesUsage = `Usage: dispatch kubernetes labels [--json]
       dispatch kubernetes manifest NODE

Tells Kubernetes of AMD's GPUs by labels, on any machine, with or without Juju. It reads
sysfs, opens no GPU, and asks no cluster. Names and values are those of AMD's node
labeller, and gpu=true and amd.com/gpu=true.

  labels    as Node Feature Discovery reads them, for a file in
            ` + nodelabels.Dir + `
  manifest  the node NODE with these labels, where there is no Node Feature Discovery:
            dispatch kubernetes manifest NODE | kubectl apply --server-side --filename -

  --json  labels as JSON, by their names on the node
  --help  print this text and exit

Exit status: 0 done, 1 failed, or there is no AMD GPU, 2 wrong command line.
`

func (p *caller) kubernetes(args []string) int {
	fs := flag.NewFlagSet("kubernetes", flag.ContinueOnError)
	fs.BoolVar(&p.format.JSON, "json", false, "")
	words, code, ended := p.flags(fs, kubernetesUsage, "label a node", args)
	labels := len(words) == 1 && words[0] == "labels"
	manifest := len(words) == 2 && words[0] == "manifest" && !p.format.JSON
	switch {
	case ended:
		return code
	case !labels && !manifest:
		return p.usageError(
			"cannot run kubernetes %q: want kubernetes labels [--json], or kubernetes manifest NODE",
			strings.Join(args, " "),
		)
	}
	inv, err := gpu.Discover(p.charm.Host.Root)
	if err != nil {
		return p.exitStatus(err)
	}
	labelSet := nodelabels.Labels(nodelabels.Read(p.charm.Host.Root, inv.Of(gpu.AMD)))
	switch {
	case len(labelSet) == 0:
		return p.exitStatus(errors.New(
			"cannot label a node: this machine has no AMD GPU that counts; dispatch gpu list says what it has",
		))
	case manifest:
		data, err := nodelabels.Manifest(words[1], labelSet)
		if err == nil {
			_, err = p.stdout.Write(data)
		}
		return p.exitStatus(err)
	case p.format.JSON:
		return p.exitStatus(term.JSON(p.stdout, labelSet))
	}
	_, err = fmt.Fprintf(p.stdout, "%s", nodelabels.Lines(labelSet))
	return p.exitStatus(err)
}
