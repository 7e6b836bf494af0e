package oci

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/pool/admission"
	"concourse-ci-machine/internal/pool/lease"
)

// A create waits in two cases only, and for no longer than a minute: nobody can tell it
// that its build is wanted no more, and a worker that is stopped waits for it for as long;
// see docs/explanation/gpu-leases.md.
const (
	waitPause = 250 * time.Millisecond
	// unreadyTime is for a GPU whose task has ended and whose memory the driver still
	// holds. What takes longer is mostly stuck for good.
	unreadyTime = 10 * time.Second
	// withheldTime is where some GPUs are withheld and others hold the rest. Concourse
	// believes in all of them: a task that is refused leaves it a place for the next one
	// here, and so one worker with a sick GPU would draw all tasks of the queue to it, one
	// after the other, while other workers have nothing to do. The same holds where processes
	// that an ended task left behind hold a GPU, until the look ends them (lease.EndLeft).
	withheldTime = 45 * time.Second
)

// patience is how long a refusal may be waited out.
func patience(err error) time.Duration {
	var refused *lease.Refusal
	switch {
	case !errors.As(err, &refused):
		return 0
	case refused.Reason == lease.Unready:
		return unreadyTime
	case refused.Reason != lease.Impossible && refused.Withheld != "" && refused.For == lease.Task, refused.TaskEnded():
		return withheldTime
	}
	return 0
}

// take leases what try finds, again and again while that may be waited for. A container is
// counted as refused once, however often it was tried.
func (w *wrapper) take(s *settings, try func() ([]int, error)) (got []int, err error) {
	for waited := time.Duration(0); ; waited += waitPause {
		if got, err = try(); waited >= patience(err) {
			w.leases(s, nil).CountRefusal(err)
			return got, err
		}
		w.sleep(waitPause)
	}
}

// unready says of a free GPU why it is not empty, by what the driver says now; "" where
// it is, or where that can't be told.
func unready(memory []admission.IdleMemory, names []string) func(gpu int) string {
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
