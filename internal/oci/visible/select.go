package visible

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// countVariable is the environment variable with which a task requests a number of GPUs.
// The default is one if GPUs are leased, and all if they are not.
const countVariable = "GPU_COUNT"

// allOfThem is the count of GPU_COUNT=all.
const countAll = -1

// readCount reads GPU_COUNT.
func readCount(env []string) (count int, set bool, err error) {
	value, _ := edits.Lookup(env, countVariable)
	// A task's param often exists without a value.
	if value = strings.TrimSpace(value); value == "" {
		return 0, false, nil
	}
	if strings.EqualFold(value, "all") {
		return countAll, true, nil
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || !isDecimal(value) {
		return 0, false, fmt.Errorf("cannot give the task %s=%s GPUs: it is not a whole number or all",
			countVariable, shorten(value))
	}
	return int(n), true, nil
}

// SelectShared returns the unit's devices for a task that shares them with others: all of
// them, or the devices that it names. GPU_COUNT limits the task to the first of them, so
// that a task sees as many GPUs as it requests whether GPUs are leased or not. Quarantined
// GPUs are left out, by the reasons of their device nodes: "is withheld since ...". A task
// that names one or needs it is refused.
func SelectShared(specs []*cdispec.Spec, devices []cdispec.Device, variables, env []string,
	quarantined map[string]string) (own []cdispec.Device, err error) {
	gpus, narrowed, err := narrow(specs, devices, variables, env)
	if err != nil || narrowed && len(gpus) == 0 {
		return nil, err
	}
	count, set, err := readCount(env)
	if err != nil {
		return nil, err
	}
	every := !set || count == countAll
	if every && !narrowed && len(quarantined) == 0 {
		return devices, nil
	}
	if count == 0 && set {
		return nil, nil
	}
	scope := "the task names"
	if !narrowed {
		scope = "this unit gives"
		if gpus, err = SingleGPUs(specs, devices); err != nil {
			return nil, err
		}
	}
	usable, others := splitQuarantined(gpus, quarantined)
	switch {
	case every && narrowed:
		count = len(gpus)
	case every:
		count = max(len(usable), 1) // all that are usable, but at least one
	}
	if count > len(gpus) {
		return nil, fmt.Errorf("cannot give the task %d GPUs: %s %d; ask for fewer by %s", count, scope,
			len(gpus), countVariable)
	}
	if count > len(usable) {
		return nil, refuseQuarantined(count, len(usable), len(gpus), scope, others)
	}
	for _, g := range usable[:count] {
		own = append(own, g.Device)
	}
	return own, nil
}

// SelectLeased returns which of the unit's GPUs a task requests if they are leased, as
// indexes in devices. A count of 0 is a task without a GPU.
//
// A list in AMD_VISIBLE_DEVICES requests all of the list, and with GPU_COUNT as many of it.
// Without a list, GPU_COUNT requests any. The list none requests none, whatever GPU_COUNT
// is. Images often set AMD_VISIBLE_DEVICES=all: this is not a list, and the task gets one
// GPU. GPU_COUNT=all requests all that are not quarantined.
func SelectLeased(specs []*cdispec.Spec, devices []cdispec.Device, variables, env []string,
	quarantined map[string]string) (w lease.Want, err error) {
	nodes, err := distinctNodes(devices)
	if err != nil {
		return w, err
	}
	own, narrowed, err := narrow(specs, devices, variables, env)
	if err != nil {
		return w, err
	}
	for i := range devices {
		if why := QuarantineReason(quarantined, nodes[i]); why != "" {
			w.Excluded = append(w.Excluded, lease.Excluded{GPU: i, Reason: why})
		}
	}
	w.Count = 1
	if narrowed {
		w.Of = []int{}
		for i, d := range devices {
			if slices.ContainsFunc(own, func(g GPU) bool {
				return g.Spec == d.Spec &&
					slices.Equal(g.nodes, nodes[i])
			}) {
				w.Of = append(w.Of, i)
			}
		}
		w.Count = len(w.Of)
	}
	if narrowed && len(w.Of) == 0 {
		return w, nil
	}
	count, set, err := readCount(env)
	switch {
	case err != nil || !set:
		return w, err
	case count != countAll:
		w.Count = count
	case !narrowed:
		w.Count = max(len(devices)-len(w.Excluded), 1)
	}
	return w, nil
}

var errSameGPU = errors.New("a GPU must be there once, or two tasks could lease it")

// distinctNodes returns the device nodes of each device and refuses equal ones, so that no
// GPU is leased under two names.
func distinctNodes(devices []cdispec.Device) ([][]string, error) {
	nodes := make([][]string, len(devices))
	for i, d := range devices {
		var err error
		if nodes[i], err = d.Nodes(); err != nil {
			return nil, err
		}
		if len(nodes[i]) == 0 {
			return nil, fmt.Errorf("cannot lease GPU %s: CDI spec %s lists no device nodes of it, by which GPUs "+
				"are told apart", d.Name, d.Spec.File)
		}
		for k, e := range devices[:i] {
			if slices.Equal(nodes[k], nodes[i]) {
				return nil, fmt.Errorf("cannot lease GPU %s: it has the device nodes of %s; %w", d.Name,
					e.Name, errSameGPU)
			}
		}
	}
	return nodes, nil
}
