package visible

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/gpu/cdispec/edits"
	"concourse-ci-machine/internal/pool/lease"
)

// Withheld is a GPU that is given to no new container.
type Withheld struct {
	Nodes []string // that it alone has
	Why   string   // after its name: "is withheld since ..."
}

// whyNot is why the GPU with these nodes is given to nobody, "" where it may be.
func whyNot(withheld []Withheld, nodes []string) string {
	for _, w := range withheld {
		if slices.ContainsFunc(w.Nodes, func(n string) bool { return slices.Contains(nodes, n) }) {
			return w.Why
		}
	}
	return ""
}

// inService parts GPUs into those that may be given and a text on the others.
func inService(gpus []unitGPU, withheld []Withheld) (may []unitGPU, not string) {
	var texts []string
	for _, g := range gpus {
		why := whyNot(withheld, g.nodes)
		if why == "" {
			may = append(may, g)
			continue
		}
		texts = append(texts, "GPU "+g.String()+" "+why)
	}
	const most = 8 // a unit can have 64 partitions
	if len(texts) > most {
		texts = append(texts[:most], "and others")
	}
	return may, strings.Join(texts, ", ")
}

// refuseWithheld is for a task that wants more GPUs than may be given.
func refuseWithheld(count, may, all int, there, not string) error {
	gpus := "1 GPU"
	if count != 1 {
		gpus = strconv.Itoa(count) + " GPUs"
	}
	return fmt.Errorf("cannot give the task %s: %d of the %d that %s can be given; %s; %s",
		gpus, may, all, there, not, lease.RunAgain)
}

// Wants reports whether a container that gets nothing by itself wants GPUs: one of the
// variables or GPU_COUNT is something, be it all, and not none.
func Wants(variables, env []string) bool {
	for _, name := range append([]string{countVariable}, variables...) {
		value, _ := edits.Lookup(env, name)
		switch strings.ToLower(strings.TrimSpace(value)) {
		case "", "none", "void":
		case "0":
			if name != countVariable { // there it is a number of GPUs, here an index
				return true
			}
		default:
			return true
		}
	}
	return false
}

// Asks reports whether a task asks for a GPU: by GPU_COUNT, or by a list in one of the
// variables. The list all is no such word, as many images have it.
func Asks(variables, env []string) bool {
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
	count, set, err := counted(env)
	if set || err != nil {
		return err != nil || count != 0
	}
	return listed
}
