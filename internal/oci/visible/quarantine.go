package visible

import (
	"fmt"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
)

// splitExcluded returns which GPUs, as indexes, are usable, and a text about the others.
func splitExcluded(gpus []GPU, own []int, excluded map[int]string) (usable []int, others string) {
	var texts []string
	for _, i := range own {
		if excluded[i] == "" {
			usable = append(usable, i)
			continue
		}
		texts = append(texts, "GPU "+gpus[i].String()+" "+excluded[i])
	}
	const most = 8 // a unit can have 64 partitions
	if len(texts) > most {
		texts = append(texts[:most], "and others")
	}
	return usable, strings.Join(texts, ", ")
}

// ExcludedError refuses a container that needs GPUs of the unit that are excluded now.
type ExcludedError string

func (e ExcludedError) Error() string { return string(e) }

// refuseExcluded refuses a task that needs more GPUs than are usable.
func refuseExcluded(count, usable, all int, scope, others string) error {
	return ExcludedError(fmt.Sprintf("cannot give the task %s: %d of the %d that %s can be given; %s",
		units.Count(count, "GPU"), usable, all, scope, others))
}

// RequestsGPUs reports whether a container that gets no GPU by default requests some:
// GPU_COUNT or one of the variables is set, also to all, and is not none.
func RequestsGPUs(variables, env []string) bool {
	for _, name := range append([]string{countVariable}, variables...) {
		value, _ := edits.Lookup(env, name)
		switch strings.ToLower(strings.TrimSpace(value)) {
		case "", "none", "void":
		case "0":
			if name != countVariable { // GPU_COUNT=0 is a number of GPUs, in a list 0 is an index
				return true
			}
		default:
			return true
		}
	}
	return false
}

// TaskRequestsGPU reports whether a task requests a GPU with GPU_COUNT or a list in one of
// the variables. The list all is not a request, because many images have it.
func TaskRequestsGPU(variables, env []string) bool {
	listed := false
	for _, name := range variables {
		value, set := edits.Lookup(env, name)
		switch value = strings.ToLower(strings.TrimSpace(value)); {
		case !set || value == "all":
		case value == "" || value == "none" || value == "void":
			return false
		default:
			listed = true
		}
	}
	count, set, err := readCount(env)
	if set || err != nil {
		return err != nil || count != 0
	}
	return listed
}
