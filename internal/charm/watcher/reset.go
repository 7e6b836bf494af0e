package watcher

import (
	"fmt"
	"io"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpureset"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// resets reports whether the unit resets GPUs. An invalid gpu-quarantine resets none.
func (u *Unit) resets() bool {
	cfg, known := u.option("gpu-quarantine")
	return known && cfg.GPU.Quarantine == quarantine.Reset
}

// resetMachine returns the machine as package gpureset sees it.
func (u *Unit) resetMachine() (m gpureset.Machine, err error) {
	m = gpureset.Machine{Host: u.Host, LXD: machine.Observe(u.Host.Root).LXD()}
	leases, err := u.readLeases()
	if err == nil && leases != nil {
		m.Leases = &leases.Leases
	}
	return m, err
}

// startReset starts ResetGPU for a GPU that may be reset now, in a separate process: the
// driver takes seconds, or hangs.
func (u *Unit) startReset() error {
	if u.Start == nil || !u.resets() {
		return nil
	}
	m, err := u.resetMachine()
	if err != nil {
		return err
	}
	w, err := m.Look()
	if err != nil {
		return fmt.Errorf("cannot plan a reset: %w", err)
	}
	if name := w.Plan(); name != "" {
		return u.Start("gpu", "reset", name)
	}
	return nil
}

// ResetGPU resets a GPU. The following looks check its health as after every fault.
func (u *Unit) ResetGPU(w io.Writer, name string) error {
	if !u.resets() {
		return fmt.Errorf("cannot reset GPU %s: gpu-quarantine is not reset", name)
	}
	m, err := u.resetMachine()
	if err != nil {
		return err
	}
	a, err := m.Reset(name)
	if a.Result != "" {
		fmt.Fprintf(w, "GPU %s: %s\n", name, a)
	}
	return err
}
