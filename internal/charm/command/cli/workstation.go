package cli

import (
	"fmt"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm/workstation"
)

// refreshCDI describes the GPUs again: those of the unit, or those of the machine.
func (p *caller) refreshCDI() error {
	if !onWorkstation() {
		return p.charm.RefreshCDI(p.ctx, p.stdout)
	}
	want, notes, err := workstation.Refresh(p.charm.Host)
	if err != nil {
		return err
	}
	for _, n := range notes {
		fmt.Fprintln(p.stderr, n)
	}
	return p.applyPlan(false, want...)
}

// undoCommand undoes all changes to the machine. The package runs it before its files are
// removed.
func (p *caller) undoCommand() command {
	return command{words: "undo-all", hidden: true, only: wellknown.GPUKit, run: func([]string) error {
		want, err := workstation.Remove(p.ctx, p.charm.Host, p.findWrapper())
		if err != nil {
			return err
		}
		return p.applyEach(want)
	}}
}

// applyEach applies resources one by one, so that one failure does not keep the others.
func (p *caller) applyEach(want []plan.Resource) (failed error) {
	for _, r := range want {
		if err := p.applyPlan(false, r); err != nil {
			fmt.Fprintln(p.stderr, err)
			failed = err
		}
	}
	return failed
}
