package lease

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
)

// Reason is the reason of a refusal.
type Reason string

// The reasons of a Refusal.
const (
	Busy       Reason = "busy"       // others hold them
	Impossible Reason = "impossible" // there are not that many
	// NotInService means that there would be enough without excluded GPUs. It is counted as
	// busy.
	NotInService Reason = "not_in_service"
	// Unready means that enough are free, but see Want.Unready. It is counted as busy.
	Unready Reason = "unready"
)

// Refusal describes why a container gets no GPUs, and how its owner can fix that.
type Refusal struct {
	Reason            Reason
	Kind              Kind     // kind of the container that requests them
	Count             int      // how many it requests
	Of                []string // names of the allowed GPUs; nil means any
	Total             int      // how many the machine has
	States            []State  // of the allowed GPUs
	At                time.Time
	PreviousContainer string // the container that had leased them before

	InService int    // how many of the allowed GPUs are in service, with NotInService
	Excluded  string // which of the allowed GPUs are excluded, and why; may be ""
	Unready   string // which are free and not ready, and why

	indexes []int // of the GPUs in States
	label   func(gpu int) string
}

// RunAgain ends a refusal for GPUs that Concourse still schedules tasks for. A step
// with "worker ... disappeared" in its error does not fail the build, because webs have
// CONCOURSE_ENABLE_RERUN_WHEN_WORKER_DISAPPEARS: Concourse runs it again some seconds later,
// possibly on another worker (Concourse, atc/exec/retry_error_step.go and atc/engine;
// tests/concourse tests it).
const RunAgain = "as on this worker GPUs have disappeared, Concourse runs the step again: on " +
	"another worker, or here when one is back"

// Error returns the whole text, which reaches the output of the build.
func (r *Refusal) Error() string {
	again := "run the task again"
	if r.Kind == Container {
		again = "start the container again"
	}
	switch {
	case r.Reason == Impossible && r.Of != nil:
		return fmt.Sprintf("cannot lease %s: the %s names %d; request fewer with %s", units.Count(r.Count, "GPU"),
			r.asker(), len(r.Of), r.countOption())
	case r.Reason == Impossible:
		return fmt.Sprintf("cannot lease %s: this machine has %d; request fewer with %s", units.Count(r.Count, "GPU"),
			r.Total, r.countOption())
	case r.Reason == NotInService:
		of := "this machine's " + strconv.Itoa(r.Total)
		if r.Of != nil {
			of = "the " + strconv.Itoa(len(r.Of)) + " that the " + r.asker() + " names"
		}
		return fmt.Sprintf("cannot lease %s: %d of %s can be given; %s", units.Count(r.Count, "GPU"), r.InService, of,
			r.Excluded) + r.runAgain()
	case r.Reason == Unready:
		return fmt.Sprintf("cannot lease %s: %s", units.Count(r.Count, "GPU"), r.Unready) + r.runAgain()
	case r.PreviousContainer != "" && r.Kind == Container:
		return fmt.Sprintf("cannot use %s in container %s: its lease was released, and since then %s; %s",
			units.Count(r.Count, "GPU"), r.PreviousContainer, r.holders(), again)
	case r.PreviousContainer != "":
		return fmt.Sprintf("cannot use %s in container %s again: its task has ended, and since then %s; %s",
			units.Count(r.Count, "GPU"), r.PreviousContainer, r.holders(), again)
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
	text := fmt.Sprintf("cannot lease %s: %d %s %s free", units.Count(r.Count, "GPU"), free, of, is)
	if holders := r.holders(); holders != "" {
		text += "; " + holders
	}
	if r.Excluded != "" {
		return text + "; " + r.Excluded + r.runAgain()
	}
	if r.TaskEnded() {
		return text + r.runAgain()
	}
	switch r.Kind {
	case Pod, Claimed, Run: // the pod's controller makes another pod, and gpukit run waits
		return text
	}
	text += "; " + again + " later"
	if r.Count > 1 {
		text += ", or request fewer"
		if r.Kind != Container { // its engine may have added the GPUs itself
			text += " by GPU_COUNT"
		}
	}
	return text
}

// TaskEnded reports whether a task is refused a GPU that is still held after the end of
// another task. Concourse treats that GPU as free, and so it would send one task after the
// other here.
func (r *Refusal) TaskEnded() bool {
	return r.Reason == Busy && r.Kind == Task && r.PreviousContainer == "" &&
		slices.ContainsFunc(r.States, func(s State) bool { return s.TaskEnded })
}

// asker returns what requests the GPUs.
func (r *Refusal) asker() string {
	if r.Kind == "" {
		return string(Task)
	}
	return string(r.Kind)
}

// countOption returns what the holder requests a number of GPUs with.
func (r *Refusal) countOption() string {
	if r.Kind == Run {
		return "--gpus"
	}
	return "GPU_COUNT"
}

// runAgain ends a refusal for GPUs that exist and cannot be leased now.
func (r *Refusal) runAgain() string {
	switch r.Kind {
	case Pod, Claimed, Run:
		return ""
	case Container:
		return "; start the container again when one is back"
	}
	return "; " + RunAgain
}

// maxHolders bounds the text: a unit can have 64 partitions.
const maxHolders = 8

// holders lists the holders and their GPUs, one container after the other.
func (r *Refusal) holders() string {
	var parts []string
	listed := make([]bool, len(r.States))
	for i, s := range r.States {
		if !s.Held || listed[i] {
			continue
		}
		if len(parts) == maxHolders {
			return strings.Join(parts, ", ") + " and others hold the rest"
		}
		var list []string
		for j, o := range r.States {
			if o.Held && o.Container == s.Container && o.Since.Equal(s.Since) && o.Doubt == s.Doubt {
				listed[j] = true
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
		text += fmt.Sprintf(" by %s since %s (%s", s.Holder(), s.Since.UTC().Format("15:04:05 UTC"),
			units.Age(r.At.Sub(s.Since)))
		if look := s.InspectCommand(); look != "" {
			text += "; see " + look
		}
		text += ")"
	}
	if s.Doubt != "" {
		text += " [" + s.Doubt + "]"
	}
	return text
}

// name returns the name of a GPU after its index, which tasks use.
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

// Values of State.Engine.
const (
	docker     = "docker"
	podman     = "podman"
	containerd = "containerd/" // followed by the namespace
)

// Holder names the current or last holder of the GPU for people, and returns "" if it is
// not known.
func (s State) Holder() string {
	switch {
	case s.Kind == Pod:
		namespace, pod, container := s.Pod()
		if pod == "" {
			return s.Container
		}
		return "pod " + namespace + "/" + pod + ", container " + container
	case s.Container == "", s.Container == SharingClaims:
		return s.Container
	case s.Kind == Container:
		name, _, _ := strings.Cut(cmp.Or(s.Engine, "another engine"), "/")
		return "container " + s.ShortName() + " of " + name
	}
	if c, is := s.Claim(); is {
		return c.String()
	}
	if s.Kind == Run {
		text := s.Container
		if s.Title != "" {
			text += " (" + s.Title + ")"
		}
		if s.TaskEnded {
			return "processes that remain of " + text
		}
		return text
	}
	if s.TaskEnded {
		return "the ended task of container " + s.Container
	}
	return "the task of container " + s.Container
}

// InspectCommand returns the command that shows the holder, and "" if there is no such
// command.
func (s State) InspectCommand() string {
	namespace, pod, _ := s.Pod()
	switch {
	case pod != "":
		return "kubectl --namespace " + namespace + " get pod " + pod
	case s.Engine == docker || s.Engine == podman:
		return s.Engine + " ps --filter id=" + s.ShortName()
	}
	if c, is := s.Claim(); is {
		return "kubectl --namespace " + c.Namespace + " get resourceclaim " + c.Name
	}
	if space, found := strings.CutPrefix(s.Engine, containerd); found {
		return "ctr --namespace " + space + " containers info " + s.Container
	}
	return ""
}

// Pod splits the name of a pod's container. It returns "" if no pod is named, as with
// StartingPod and SharingPods.
func (s State) Pod() (namespace, pod, container string) {
	if s.Kind != Pod || !strings.Contains(s.Container, "/") {
		return "", "", ""
	}
	namespace, rest, _ := strings.Cut(s.Container, "/")
	pod, container, _ = strings.Cut(rest, "/")
	return namespace, pod, container
}

// engineOf detects the engine from a container's bundle. The shim of containerd has bundles
// below a namespace, which is moby for Docker, and Podman has them below
// containers/storage.
func engineOf(bundle string) string {
	const shim = "/io.containerd.runtime.v2.task/"
	_, below, ofShim := strings.Cut(bundle, shim)
	space, _, _ := strings.Cut(below, "/")
	switch {
	case ofShim && space == "moby":
		return docker
	case ofShim:
		return containerd + space
	case strings.Contains(bundle, "/overlay-containers/"), strings.Contains(bundle, "/vfs-containers/"):
		return podman
	}
	return ""
}

// ShortName returns the name as engines show it: the first twelve of 64 hexadecimal digits.
func (s State) ShortName() string {
	if c, is := s.Claim(); is {
		return c.Namespace + "/" + c.Name
	}
	if id := s.Container; len(id) == 64 && strings.Trim(id, "0123456789abcdef") == "" {
		return id[:12]
	}
	return s.Container
}
