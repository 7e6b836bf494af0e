package oci

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/lease"
)

// A GPU whose task has ended is free, but the driver may still hold what the task had
// there. Given on, the next task finds too little memory. So it waits a little where there
// is no other, which it never does for a GPU that is empty.
const (
	unreadyPause = 250 * time.Millisecond
	// unreadyTime is short, as nobody can tell a create that its build is wanted no more;
	// see docs/explanation/gpu-leases.md. What takes longer is mostly stuck for good.
	unreadyTime = 10 * time.Second
)

// take leases, and waits for memory to come back.
func (w *wrapper) take(l lease.Leases, c lease.Call, want lease.Want) (got []int, err error) {
	for waited := time.Duration(0); ; waited += unreadyPause {
		got, err = l.Take(c, want)
		var refused *lease.Refusal
		if !errors.As(err, &refused) || refused.Reason != lease.Unready || waited >= unreadyTime {
			return got, err
		}
		w.sleep(unreadyPause)
	}
}

// unready says of a free GPU why it is not empty, by what the driver says now; "" where
// it is, or where that can't be told.
func unready(memory []IdleMemory, names []string) func(gpu int) string {
	if len(memory) == 0 {
		return nil
	}
	return func(gpu int) string {
		for _, m := range memory {
			if m.Name != names[gpu] {
				continue
			}
			if used, ok := usedMemory(m.File); ok && used > m.Most {
				return fmt.Sprintf("has %s of its memory in use, though its last task has ended", size(used))
			}
		}
		return ""
	}
}

func usedMemory(file string) (uint64, bool) {
	data, _, err := readRegular(file, false)
	if err != nil {
		return 0, false
	}
	used, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return used, err == nil
}

// size is bytes for people.
func size(n uint64) string {
	if n < 1<<30 {
		return strconv.FormatUint(n>>20, 10) + " MiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB"
}
