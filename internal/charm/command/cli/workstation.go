package cli

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/workstation"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
)

// cdiRefreshCommand describes the GPUs again: those of the unit, or those of the machine.
func (p *caller) cdiRefreshCommand() command {
	if !p.onWorkstation() {
		return command{words: "cdi refresh", text: "describe the GPUs for tasks again; restarts nothing",
			run: func([]string) error { return p.charm.RefreshCDI(p.ctx, p.stdout) }}
	}
	var s workstation.Selection
	return command{words: "cdi refresh", text: "describe the GPUs again, as gpukit-cdi.service does",
		long: "Describes the AMD GPUs of this machine in " + cdi.Path + ", and sets their leases if runtime configure " +
			"--exclusive turned them on. A description by another tool stays. gpukit-cdi.service runs this command " +
			"when GPUs change, with the variables in /etc/default/gpukit.",
		flags: func(fs *pflag.FlagSet) {
			selectionFlags(fs, &s)
			p.planFlags(fs)
		},
		run: func([]string) error { return p.refreshCDI(s) }}
}

// selectionFlags adds the flags that limit a description.
func selectionFlags(fs *pflag.FlagSet, s *workstation.Selection) {
	fs.StringSliceVar(&s.Devices, "device", nil, "`GPU` to describe: its number, GPU-<unique id> or PCI address; "+
		"repeat it for more (default: all)")
	fs.BoolVar(&s.NoAll, "no-all", false, "leave out the name amd.com/gpu=all")
}

func (p *caller) refreshCDI(s workstation.Selection) error {
	want, notes, err := workstation.Refresh(p.charm.Host, p.name(), s)
	if err != nil {
		return err
	}
	for _, n := range notes {
		if !p.plan.quiet {
			fmt.Fprintln(p.stderr, n)
		}
	}
	return p.applyPlan(want...)
}

// undoCommand undoes all changes to the machine. The package runs it before its files are
// removed.
func (p *caller) undoCommand() command {
	return command{words: "undo-all", hidden: true, only: wellknown.GPUKit, run: func([]string) error {
		program, err := os.Executable()
		if err != nil {
			return err
		}
		want, err := workstation.Remove(p.ctx, p.charm.Host, program, p.findWrapper())
		if err != nil {
			return err
		}
		return p.applyEach(want)
	}}
}

// applyEach applies resources one by one, so that one failure does not keep the others.
func (p *caller) applyEach(want []plan.Resource) (failed error) {
	for _, r := range want {
		if err := p.applyPlan(r); err != nil {
			fmt.Fprintln(p.stderr, err)
			failed = err
		}
	}
	return failed
}
