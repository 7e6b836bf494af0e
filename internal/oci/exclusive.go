package oci

import (
	"fmt"

	"concourse-ci-machine/internal/lease"
	"concourse-ci-machine/internal/oci/rawjson"
)

// leaseGPUs leases what the task asks for and returns that. What is leased stays so
// as long as this process lives, which becomes runc; and then as long as the
// container's task does. A kill at any point loses nothing.
func (w wrapper) leaseGPUs(c settings, call Call, doc *rawjson.Doc, specs []cdiSpec, devices []chosen, env []string) ([]chosen, held, error) {
	ask, err := want(specs, devices, c.Visible, env)
	if err != nil || ask.Count == 0 {
		return nil, held{}, err
	}
	h, err := holder(doc.Root(), call)
	if err != nil {
		return nil, held{}, err
	}
	caller, err := h.call(call)
	if err != nil {
		return nil, held{}, err
	}
	names, err := c.leasesOf(devices)
	if err != nil {
		return nil, held{}, err
	}
	leases := w.leases(c, names)
	leases.Links = c.Leases.Links
	got, err := leases.Take(caller, ask)
	if err != nil {
		return nil, held{}, named(err, leases.GPUs, func(i int) string { return labelOf(specs, devices, i) })
	}
	own := make([]chosen, len(got))
	h.gpus = make([]string, len(got))
	for i, g := range got {
		own[i], h.gpus[i] = devices[g], leases.GPUs[g]
	}
	return own, h, nil
}

// enter makes the lease of a container the exec's, which is refused when another
// container has one of its GPUs by now. It does nothing where leases are off:
// then GPUs are shared, whoever has them.
func (w wrapper) enter(c settings, call Call, k marker) error {
	if c.Leases == nil || k.lease.none() {
		return nil
	}
	call.Bundle = k.bundle
	caller, err := k.lease.call(call)
	if err != nil {
		return err
	}
	all := make([]int, len(k.lease.gpus))
	for i := range all {
		all[i] = i
	}
	if err := w.leases(c, k.lease.gpus).Enter(caller, all); err != nil {
		err = named(err, k.lease.gpus, func(i int) string { return k.lease.gpus[i] })
		return fmt.Errorf("%w [container %s]", err, call.ID)
	}
	return nil
}

// giveBack ends the lease of a create that failed before it became runc. What
// can't be given back ends with this process, which is the next thing to happen.
func (w wrapper) giveBack(c settings, call Call, k marker) {
	if !k.lease.none() {
		_ = w.leases(c, k.lease.gpus).Forget(call.ID) // the error that counts is the one before
	}
}

func (w wrapper) leases(c settings, gpus []string) lease.Leases {
	return lease.Leases{Dir: c.Leases.Dir, GPUs: gpus, Euid: w.euid, Now: w.now}
}
