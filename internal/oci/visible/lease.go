package visible

import (
	"errors"
	"fmt"
	"slices"

	"concourse-ci-machine/internal/gpu/cdispec"
	"concourse-ci-machine/internal/pool/lease"
)

// Leased says which of the unit's GPUs a task asks for where they are leased, as
// indexes in devices; a count of 0 is a task without a GPU. With a list in
// AMD_VISIBLE_DEVICES that is all of the list, with GPU_COUNT so many of it;
// without a list, GPU_COUNT of any. The list none is none, whatever GPU_COUNT
// says. Images often set AMD_VISIBLE_DEVICES=all: that is no list, and the task
// gets one. GPU_COUNT=all is all that are not withheld.
func Leased(specs []*cdispec.Spec, devices []cdispec.Device, variables, env []string, withheld []Withheld) (w lease.Want, err error) {
	nodes, err := distinctNodes(devices)
	if err != nil {
		return w, err
	}
	own, narrowed, err := narrow(specs, devices, variables, env)
	if err != nil {
		return w, err
	}
	for i := range devices {
		if why := whyNot(withheld, nodes[i]); why != "" {
			w.Withheld = append(w.Withheld, lease.Withheld{GPU: i, Why: why})
		}
	}
	w.Count = 1
	if narrowed {
		w.Of = []int{}
		for i, d := range devices {
			if slices.ContainsFunc(own, func(g unitGPU) bool { return g.Spec == d.Spec && slices.Equal(g.nodes, nodes[i]) }) {
				w.Of = append(w.Of, i)
			}
		}
		w.Count = len(w.Of)
	}
	if narrowed && len(w.Of) == 0 {
		return w, nil
	}
	count, set, err := counted(env)
	switch {
	case err != nil || !set:
		return w, err
	case count != allOfThem:
		w.Count = count
	case !narrowed:
		w.Count = max(len(devices)-len(w.Withheld), 1)
	}
	return w, nil
}

var errSameGPU = errors.New("a GPU must be there once, or two tasks could lease it")

// distinctNodes are the device nodes of each, by which it is known that no GPU
// is leased under two names.
func distinctNodes(devices []cdispec.Device) ([][]string, error) {
	nodes := make([][]string, len(devices))
	for i, d := range devices {
		var err error
		if nodes[i], err = d.Nodes(); err != nil {
			return nil, err
		}
		if len(nodes[i]) == 0 {
			return nil, fmt.Errorf("cannot lease GPU %s: CDI spec %s lists no device nodes of it, by which GPUs are told apart", d.Name, d.Spec.File)
		}
		for k, e := range devices[:i] {
			if slices.Equal(nodes[k], nodes[i]) {
				return nil, fmt.Errorf("cannot lease GPU %s: it has the device nodes of %s; %w", d.Name, e.Name, errSameGPU)
			}
		}
	}
	return nodes, nil
}
