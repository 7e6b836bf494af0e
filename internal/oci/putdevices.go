package oci

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/lease"
	"concourse-ci-machine/internal/oci/cmdline"
	"concourse-ci-machine/internal/oci/rawjson"
)

// putByEngine are the leased GPUs, by their places in s.Leases.GPUs, whose nodes another
// engine has put into a container itself: Docker and Podman for --device, which may be of
// CDI, and for --privileged. Concourse never does.
func (w *wrapper) putByEngine(s *settings, root rawjson.Value) (gpus []int, err error) {
	if s.Leases == nil || !w.named {
		return nil, nil
	}
	fail := func(err error) ([]int, error) { return nil, fmt.Errorf("cannot decode %s: %w", configName, err) }
	linux, err := root.Of("linux", rawjson.Object)
	if err != nil {
		return fail(err)
	}
	devices, err := linux.Of("devices", rawjson.Array)
	if err != nil {
		return fail(err)
	}
	for d := range devices.Elements() {
		kind, err := d.StringOf("type")
		if err != nil {
			return fail(err)
		}
		major, err := d.NumberOf("major", 1<<32-1)
		if err != nil {
			return fail(err)
		}
		minor, err := d.NumberOf("minor", 1<<32-1)
		if err != nil {
			return fail(err)
		}
		if kind != "c" && kind != "u" { // config-linux.md: both are character devices
			continue
		}
		at := slices.IndexFunc(s.Leases.GPUs, func(g LeasedGPU) bool { return w.hasNode(g, unix.Mkdev(uint32(major), uint32(minor))) })
		if at >= 0 && !slices.Contains(gpus, at) {
			gpus = append(gpus, at)
		}
	}
	return gpus, nil
}

// hasNode tells whether a device is one of a GPU's, by whatever name a container has it.
func (w *wrapper) hasNode(g LeasedGPU, dev uint64) bool {
	return slices.ContainsFunc(g.Nodes, func(path string) bool {
		var st unix.Stat_t
		return w.lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == dev
	})
}

// leasePut leases exactly the GPUs that the engine has put into the container, whatever
// its environment says, and adds nothing to it.
func (w *wrapper) leasePut(s *settings, c *cmdline.Call, doc *rawjson.Doc, gpus []int) (h held, err error) {
	names := s.LeaseNames()
	got, err := w.take(func() (got []int, err error) {
		file := w.readWithheld(s)
		want := lease.Want{Of: gpus, Count: len(gpus), Unready: unready(file.Memory, names)}
		for _, out := range s.withheld(file) {
			for _, g := range gpus {
				if slices.ContainsFunc(out.Nodes, func(n string) bool { return slices.Contains(s.Leases.GPUs[g].Nodes, n) }) {
					want.Withheld = append(want.Withheld, lease.Withheld{GPU: g, Why: out.Why})
				}
			}
		}
		var caller lease.Call
		if h, caller, err = w.caller(doc, c, true); err != nil {
			return nil, err
		}
		leases := w.leases(s, names)
		leases.Label = func(gpu int) string { return names[gpu] + " (" + s.Leases.GPUs[gpu].Nodes[0] + ")" }
		return leases.Take(caller, want)
	})
	if err != nil {
		return held{}, fmt.Errorf("cannot leave the container the GPUs that its engine has put into it (--device, --privileged): %w", err)
	}
	for _, g := range got {
		h.gpus = append(h.gpus, names[g])
	}
	return h, nil
}
