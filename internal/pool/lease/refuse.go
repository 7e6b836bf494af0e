package lease

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reason is why GPUs are refused.
type Reason string

// The reasons of a Refusal.
const (
	Busy       Reason = "busy"       // others hold them
	Impossible Reason = "impossible" // there are not that many
	// OutOfService: there would be enough, if none were withheld. It is counted as busy.
	OutOfService Reason = "out_of_service"
	// Unready: enough are free, but see Want.Unready. It is counted as busy.
	Unready Reason = "unready"
)

// Refusal says why a container gets no GPUs, and what its owner can do.
type Refusal struct {
	Reason Reason
	For    Kind     // what asks for them
	Count  int      // how many it wants
	Of     []string // names of the GPUs it may get; nil: any
	Total  int      // how many the unit has
	States []State  // of those it may get
	At     time.Time
	Again  string // the container that had them before and lost them

	InService int    // of those it may get, with OutOfService
	Withheld  string // which of those it may get are withheld, and why; "" for none
	Unready   string // which are free and can't be given yet, and why

	indexes []int // those of States
	label   func(gpu int) string
}

// RunAgain ends a refusal for want of GPUs that Concourse believes to be here. With the
// web's option gpu-rerun it does not fail a build for a step whose error has "worker ...
// disappeared" in it, but runs it again some seconds later, where else that may be
// (Concourse, atc/exec/retry_error_step.go and atc/engine; tests/concourse holds it).
const RunAgain = "as on this worker GPUs have disappeared, Concourse runs the step again (gpu-rerun): on another worker, or here when one is back"

// Error is the whole text, which reaches the output of the build.
func (r *Refusal) Error() string {
	again := "run the task again"
	if r.For == Container {
		again = "start the container again"
	}
	switch {
	case r.Reason == Impossible && r.Of != nil:
		return fmt.Sprintf("cannot lease %s: the %s names %d; ask for fewer by GPU_COUNT", gpus(r.Count), r.asker(), len(r.Of))
	case r.Reason == Impossible:
		return fmt.Sprintf("cannot lease %s: this unit has %d; ask for fewer by GPU_COUNT", gpus(r.Count), r.Total)
	case r.Reason == OutOfService:
		of := "this unit's " + strconv.Itoa(r.Total)
		if r.Of != nil {
			of = "the " + strconv.Itoa(len(r.Of)) + " that the " + r.asker() + " names"
		}
		return fmt.Sprintf("cannot lease %s: %d of %s can be given; %s", gpus(r.Count), r.InService, of, r.Withheld) + r.runAgain()
	case r.Reason == Unready:
		return fmt.Sprintf("cannot lease %s: %s", gpus(r.Count), r.Unready) + r.runAgain()
	case r.Again != "" && r.For == Container:
		return fmt.Sprintf("cannot use %s in container %s: its lease was released, and since then %s; %s", gpus(r.Count), r.Again, r.holders(), again)
	case r.Again != "":
		return fmt.Sprintf("cannot use %s in container %s again: its task has ended, and since then %s; %s", gpus(r.Count), r.Again, r.holders(), again)
	}
	of := "of " + strconv.Itoa(r.Total)
	if r.Of != nil {
		of = "of the " + strconv.Itoa(len(r.Of)) + " that the " + r.asker() + " names"
	}
	free := 0
	for _, s := range r.States {
		if !s.Held {
			free++
		}
	}
	is := "are"
	if free == 1 {
		is = "is"
	}
	text := fmt.Sprintf("cannot lease %s: %d %s %s free", gpus(r.Count), free, of, is)
	if holders := r.holders(); holders != "" {
		text += "; " + holders
	}
	if r.Withheld != "" {
		return text + "; " + r.Withheld + r.runAgain()
	}
	if r.TaskEnded() {
		return text + r.runAgain()
	}
	switch r.For {
	case Pod: // it is its controller that makes another
		return text
	case Container:
		text += "; " + again + " later"
	default:
		text += "; " + again + " later, or let tasks queue at the web (limit-gpu-tasks)"
	}
	if r.Count > 1 {
		text += ", or ask for fewer"
		if r.For != Container { // whose engine can have put them into it
			text += " by GPU_COUNT"
		}
	}
	return text
}

// TaskEnded reports whether a task is refused a GPU that is held after the end of its task.
// Concourse counts that GPU as free, and so it would send one task after the other here.
func (r *Refusal) TaskEnded() bool {
	return r.Reason == Busy && r.For == Task && r.Again == "" && slices.ContainsFunc(r.States, func(s State) bool { return s.TaskEnded })
}

// asker is what names the GPUs.
func (r *Refusal) asker() string {
	if r.For == "" {
		return string(Task)
	}
	return string(r.For)
}

// runAgain ends a refusal for want of GPUs that are here and can't be given.
func (r *Refusal) runAgain() string {
	switch r.For {
	case Pod:
		return ""
	case Container:
		return "; start the container again when one is back"
	}
	return "; " + RunAgain
}

func gpus(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return strconv.Itoa(n) + " GPUs"
}

// maxHolders bounds the text: a unit can have 64 partitions.
const maxHolders = 8

// holders says who holds what, one container after the other.
func (r *Refusal) holders() string {
	var parts []string
	said := make([]bool, len(r.States))
	for i, s := range r.States {
		if !s.Held || said[i] {
			continue
		}
		if len(parts) == maxHolders {
			return strings.Join(parts, ", ") + " and others hold the rest"
		}
		var list []string
		for j, o := range r.States {
			if o.Held && o.Container == s.Container && o.Since.Equal(s.Since) && o.Doubt == s.Doubt {
				said[j] = true
				list = append(list, r.name(j))
			}
		}
		parts = append(parts, r.holder(strings.Join(list, ", "), len(list), s))
	}
	return strings.Join(parts, ", ")
}

func (r *Refusal) holder(list string, n int, s State) string {
	text := list + " is held"
	if n > 1 {
		text = list + " are held"
	}
	if s.Container != "" {
		text += fmt.Sprintf(" by %s since %s (%s", s.Holder(), s.Since.UTC().Format("15:04:05 UTC"), short(r.At.Sub(s.Since)))
		if look := s.Look(); look != "" {
			text += "; see " + look
		}
		text += ")"
	}
	if s.Doubt != "" {
		text += " [" + s.Doubt + "]"
	}
	return text
}

// name is that of a GPU, after its index, by which tasks name it.
func (r *Refusal) name(i int) string {
	index := strconv.Itoa(i)
	if i < len(r.indexes) {
		index = strconv.Itoa(r.indexes[i])
	}
	if r.label != nil && i < len(r.indexes) {
		return r.label(r.indexes[i])
	}
	if r.States[i].GPU == index {
		return index
	}
	return index + " (" + r.States[i].GPU + ")"
}

// short has one unit: 40s, 12m, 26h.
func short(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return strconv.Itoa(int(d/time.Hour)) + "h"
}
