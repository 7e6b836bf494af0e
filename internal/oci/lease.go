package oci

import (
	"errors"
	"fmt"
	"slices"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/gpu/cdispec"
	"concourse-ci-machine/internal/oci/cmdline"
	"concourse-ci-machine/internal/oci/visible"
	"concourse-ci-machine/internal/pool/lease"
)

// leaseGPUs leases what the container asks for and returns that. What is leased stays so
// as long as this process lives, which becomes runc; and then as long as the
// container's task does. A kill at any point loses nothing.
func (w *wrapper) leaseGPUs(s *settings, c *cmdline.Call, doc *rawjson.Doc, specs []*cdispec.Spec, devices []cdispec.Device, env []string) ([]cdispec.Device, held, error) {
	var h held
	var names []string
	got, err := w.take(s, func() ([]int, error) {
		file := w.readWithheld(s)
		want, err := visible.Leased(specs, devices, s.Visible, env, s.withheld(file))
		if err != nil || want.Count == 0 {
			return nil, err
		}
		var caller lease.Call
		if h, caller, err = w.caller(doc, c, w.engine); err != nil {
			return nil, err
		}
		if names, err = s.leasesOf(devices); err != nil {
			return nil, err
		}
		for _, a := range file.Avoid {
			if at := slices.Index(names, a.Name); at >= 0 {
				want.Avoid = append(want.Avoid, lease.Avoid{GPU: at, Like: a.Like})
			}
		}
		want.Unready = unready(file.Memory, names)
		leases := w.leases(s, names)
		leases.Links = s.Leases.Links
		leases.Label = func(gpu int) string { return visible.Label(specs, devices[gpu]) }
		return leases.Try(caller, want)
	})
	if err != nil || len(got) == 0 {
		return nil, held{}, err
	}
	own := make([]cdispec.Device, len(got))
	h.gpus = make([]string, len(got))
	for i, g := range got {
		own[i], h.gpus[i] = devices[g], names[g]
	}
	return own, h, nil
}

// caller is this call, which leases; own is that of another engine.
func (w *wrapper) caller(doc *rawjson.Doc, c *cmdline.Call, own bool) (h held, caller lease.Call, err error) {
	if w.rootless() {
		return h, caller, errors.New("cannot lease GPUs to a container of an engine without root: leases are root's to take; run it with root")
	}
	if h, err = holder(doc.Root(), c, own); err == nil {
		caller, err = h.call(c.ID, c.Bundle)
	}
	caller.Like = like(doc.Root())
	return h, caller, err
}

// enterLease makes the lease of a container the exec's, which is refused when
// another container has one of its GPUs by now. It does nothing where leases are
// off: then GPUs are shared, whoever has them. A start counts for containers of other
// engines only, as with it a task has not begun.
func (w *wrapper) enterLease(s *settings, c *cmdline.Call, k marker) error {
	if s.Leases == nil || k.lease.none() || c.Command == "start" && !k.lease.own {
		return nil
	}
	caller, err := k.lease.call(c.ID, k.bundle)
	if err != nil {
		return err
	}
	all := make([]int, len(k.lease.gpus))
	for i := range all {
		all[i] = i
	}
	leases := w.leases(s, k.lease.gpus)
	leases.Label = func(gpu int) string { return k.lease.gpus[gpu] }
	if err := leases.Enter(caller, all); err != nil {
		return fmt.Errorf("%w [container %s]", err, c.ID)
	}
	return nil
}

// endLease ends the lease of a create that failed before it became runc. What
// can't be ended so ends with this process, which is the next thing to happen.
func (w *wrapper) endLease(s *settings, c *cmdline.Call, k marker) {
	if !k.lease.none() {
		_ = w.unpin(s, k.lease.gpus)               // first: then others can have them, and pin them
		_ = w.leases(s, k.lease.gpus).Forget(c.ID) // the error that counts is the one before
	}
}

func (w *wrapper) leases(s *settings, gpus []string) lease.Leases {
	return lease.Leases{Dir: s.Leases.Dir, GPUs: gpus, Euid: w.euid, Now: w.now}
}
