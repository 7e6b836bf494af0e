package visible

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// countVariable is the environment variable with which a task requests a number of GPUs.
// The default is one if GPUs are leased, and all if they are not.
const countVariable = "GPU_COUNT"

// countAll is the count of GPU_COUNT=all.
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

// SelectShared returns, as indexes, the unit's GPUs for a task that shares them with others:
// all of them, or those that it names. GPU_COUNT limits the task to the first of them, so
// that a task sees as many GPUs as it requests whether GPUs are leased or not. Excluded GPUs
// are left out. A task that names one or needs it is refused.
func SelectShared(gpus []GPU, variables, env []string, excluded map[int]string) (own []int, err error) {
	own, narrowed, err := narrow(gpus, variables, env)
	if err != nil || narrowed && len(own) == 0 {
		return nil, err
	}
	count, set, err := readCount(env)
	if err != nil || count == 0 && set {
		return nil, err
	}
	scope := "the task names"
	if !narrowed {
		scope = "this machine gives"
	}
	if len(excluded) > 0 {
		if err := Describe(gpus); err != nil {
			return nil, err
		}
	}
	usable, others := splitExcluded(gpus, own, excluded)
	switch every := !set || count == countAll; {
	case every && narrowed:
		count = len(own)
	case every:
		count = max(len(usable), 1) // all that are usable, but at least one
	}
	if count > len(own) {
		return nil, fmt.Errorf("cannot give the task %d GPUs: %s %d; request fewer with %s", count, scope,
			len(own), countVariable)
	}
	if count > len(usable) {
		return nil, refuseExcluded(count, len(usable), len(own), scope, others)
	}
	return usable[:count], nil
}

// SelectLeased sets which of the unit's GPUs a task requests if they are leased: Of and
// Count of w, which has the excluded GPUs. A count of 0 is a task without a GPU.
//
// A list in AMD_VISIBLE_DEVICES requests all of the list, and with GPU_COUNT as many of it.
// Without a list, GPU_COUNT requests any. The list none requests none, whatever GPU_COUNT
// is. Images often set AMD_VISIBLE_DEVICES=all: this is not a list, and the task gets one
// GPU. GPU_COUNT=all requests all that are not excluded.
func SelectLeased(w *lease.Want, gpus []GPU, variables, env []string) error {
	own, narrowed, err := narrow(gpus, variables, env)
	if err != nil {
		return err
	}
	w.Count = 1
	if narrowed {
		w.Of, w.Count = own, len(own)
		if w.Count == 0 {
			return nil
		}
	}
	count, set, err := readCount(env)
	switch {
	case err != nil || !set:
		return err
	case count != countAll:
		w.Count = count
	case !narrowed:
		w.Count = max(len(gpus)-len(w.Excluded), 1)
	}
	return nil
}
