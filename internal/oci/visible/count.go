package visible

import (
	"fmt"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/gpu/cdispec"
	"concourse-ci-machine/internal/gpu/cdispec/edits"
)

// countVariable is the environment variable by which a task says how many GPUs it
// wants. Not set: one where they are leased, all where they are not.
const countVariable = "GPU_COUNT"

// allOfThem is the count of GPU_COUNT=all.
const allOfThem = -1

// counted reads GPU_COUNT.
func counted(env []string) (count int, set bool, err error) {
	value, _ := edits.Lookup(env, countVariable)
	// A param of a task is often there without a value.
	if value = strings.TrimSpace(value); value == "" {
		return 0, false, nil
	}
	if strings.EqualFold(value, "all") {
		return allOfThem, true, nil
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || !isDecimal(value) {
		return 0, false, fmt.Errorf("cannot give the task %s=%s GPUs: it is not a whole number or all", countVariable, shorten(value))
	}
	return int(n), true, nil
}

// Shared says which of the unit's devices a task gets that shares them with
// others: all; or those that it names, and the first so many of them where it
// sets GPU_COUNT, so that a task sees as many as it asks for whether GPUs are
// leased or not. Of those that are withheld it gets none, and is refused where it names
// one or needs it.
func Shared(specs []*cdispec.Spec, devices []cdispec.Device, variables, env []string, withheld []Withheld) (own []cdispec.Device, err error) {
	gpus, narrowed, err := narrow(specs, devices, variables, env)
	if err != nil || narrowed && len(gpus) == 0 {
		return nil, err
	}
	count, set, err := counted(env)
	if err != nil {
		return nil, err
	}
	every := !set || count == allOfThem
	if every && !narrowed && len(withheld) == 0 {
		return devices, nil
	}
	if count == 0 && set {
		return nil, nil
	}
	there := "the task names"
	if !narrowed {
		there = "this unit gives"
		if gpus, err = unitGPUs(specs, devices); err != nil {
			return nil, err
		}
	}
	may, not := inService(gpus, withheld)
	switch {
	case every && narrowed:
		count = len(gpus)
	case every:
		count = max(len(may), 1) // all that there are, but not none
	}
	if count > len(gpus) {
		return nil, fmt.Errorf("cannot give the task %d GPUs: %s %d; ask for fewer by %s", count, there, len(gpus), countVariable)
	}
	if count > len(may) {
		return nil, refuseWithheld(count, len(may), len(gpus), there, not)
	}
	for _, g := range may[:count] {
		own = append(own, g.Device)
	}
	return own, nil
}
