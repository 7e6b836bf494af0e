package watcher

import (
	"fmt"
	"io"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpureset"
)

// resetMachine returns the machine as package gpureset sees it. An invalid gpu-reset is off.
func (u *Unit) resetMachine() (m gpureset.Machine, err error) {
	m = gpureset.Machine{Host: u.Host, Mode: gpureset.Off}
	if cfg, known := u.option("gpu-reset"); known {
		m.Mode = cfg.GPU.Reset
	}
	if m.Mode == gpureset.Off {
		return m, nil
	}
	m.LXD = machine.Observe(u.Host.Root).LXD()
	leases, err := u.readLeases()
	if err == nil && leases != nil {
		m.Leases = &leases.Leases
	}
	return m, err
}

// startReset starts ResetGPU for a GPU that may be reset now, in a separate process: the
// driver takes seconds, or hangs.
func (u *Unit) startReset() error {
	m, err := u.resetMachine()
	if err != nil || m.Mode == gpureset.Off || u.Start == nil {
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
