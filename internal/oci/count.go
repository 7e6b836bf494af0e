package oci

import (
	"fmt"
	"strconv"
	"strings"
)

// allOfThem is the count of GPU_COUNT=all.
const allOfThem = -1

// counted reads GPU_COUNT.
func counted(env []string) (count int, said bool, err error) {
	value, set := lookupLast(env, countVariable)
	// A param of a task is often there without a value.
	if value = strings.TrimSpace(value); !set || value == "" {
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

// share says which GPUs a task gets that shares them with others: those that it
// names, and the first so many of them where it sets GPU_COUNT, so that a task
// sees as many as it asks for whether GPUs are leased or not. narrowed is false
// where it gets all devices.
func share(specs []cdiSpec, devices []chosen, visibleNames, env []string) (own []chosen, narrowed bool, err error) {
	own, narrowed, err = visible(specs, devices, visibleNames, env)
	if err != nil || narrowed && len(own) == 0 {
		return nil, narrowed, err
	}
	count, said, err := counted(env)
	if err != nil || !said || count == allOfThem {
		return own, narrowed, err
	}
	there := "this unit gives"
	if narrowed {
		there = "the task names"
	} else {
		gpus, err := unitGPUs(specs, devices)
		if err != nil {
			return nil, false, err
		}
		for _, g := range gpus {
			own = append(own, g.chosen)
		}
	}
	if count > len(own) {
		return nil, false, fmt.Errorf("cannot give the task %d GPUs: %s %d; ask for fewer by %s", count, there, len(own), countVariable)
	}
	return own[:count], true, nil
}
